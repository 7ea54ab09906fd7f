//! Permissions: areas of the database, each with read access, write access, or both.

use std::fmt;

/// An area of the database. The areas are few, so that an administrator can easily grant them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// Cells and their values, present and past.
    Cells,
    /// Records and their fields, present and past.
    Records,
    /// Runs, their events and their derived state.
    Runs,
    /// Messages to be delivered.
    Outbox,
    /// Spaces of keyed state and their contents, present and past.
    Keyed,
    /// Sessions: their requests, and messages to their clients.
    Sessions,
    /// Branches and tags.
    Branches,
    /// The feed of changes, including values.
    Feed,
    /// Metrics and settings of the server, and the connected clients.
    Server,
    /// Operations on everything at once: files, backups, deleting all keys, users.
    Admin,
}

/// All areas with their names in settings.
const AREAS: [(Area, &str); 10] = [
    (Area::Cells, "cells"),
    (Area::Records, "records"),
    (Area::Runs, "runs"),
    (Area::Outbox, "outbox"),
    (Area::Keyed, "keyed"),
    (Area::Sessions, "sessions"),
    (Area::Branches, "branches"),
    (Area::Feed, "feed"),
    (Area::Server, "server"),
    (Area::Admin, "admin"),
];

/// Returns the names of all areas, as in settings.
pub(super) fn area_names() -> String {
    AREAS.map(|(_, name)| name).join(", ")
}

/// The access that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Writing.
    Write,
    /// Reading or writing: one of them is enough.
    Either,
}

/// A permission that something needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    area: Area,
    /// Alternative areas: the same access there is enough, too.
    others: [Option<Area>; 5],
    access: Access,
}

impl Right {
    /// Read access to an area.
    pub const fn read(area: Area) -> Right {
        Right { area, others: [None; 5], access: Access::Read }
    }

    /// Write access to an area.
    pub const fn write(area: Area) -> Right {
        Right { area, others: [None; 5], access: Access::Write }
    }

    /// Read or write access to an area.
    pub const fn either(area: Area) -> Right {
        Right { area, others: [None; 5], access: Access::Either }
    }

    /// Adds an alternative area, of which the user needs only one. At most five can be added.
    pub const fn or(mut self, other: Area) -> Right {
        let mut place = 0;
        while place + 1 < self.others.len() && self.others[place].is_some() {
            place += 1;
        }
        self.others[place] = Some(other);
        self
    }

    fn areas(self) -> impl Iterator<Item = Area> {
        [Some(self.area)].into_iter().chain(self.others).flatten()
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, area) in self.areas().enumerate() {
            let area = AREAS.iter().find(|(known, _)| *known == area).map_or("", |(_, name)| name);
            f.write_str(if place > 0 { " or " } else { "" })?;
            match self.access {
                Access::Read => write!(f, "{area}:read")?,
                Access::Write => write!(f, "{area}:write")?,
                Access::Either => write!(f, "{area}:read or {area}:write")?,
            }
        }
        Ok(())
    }
}

/// The permissions of a user: two bits for each area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rights(u32);

const READ: u32 = 1;
const WRITE: u32 = 2;

impl Rights {
    /// All permissions.
    pub const ALL: Rights = Rights(u32::MAX >> (u32::BITS as usize - 2 * AREAS.len()));

    /// Parses the permissions in settings. Returns the first one that is invalid.
    pub fn read<'a>(allow: impl IntoIterator<Item = &'a String>) -> Result<Rights, &'a str> {
        let mut rights = Rights::default();
        for text in allow {
            rights.0 |= Rights::one(text).ok_or(text.as_str())?.0;
        }
        Ok(rights)
    }

    fn one(text: &str) -> Option<Rights> {
        let (name, access) = text.split_once(':').unwrap_or((text, ""));
        let bits = match access {
            "" if !text.ends_with(':') => READ | WRITE,
            "read" => READ,
            "write" => WRITE,
            _ => return None,
        };
        let found = AREAS
            .iter()
            .filter(|(_, known)| name == "all" || name == *known)
            .map(|(area, _)| bits << shift(*area));
        Some(Rights(found.reduce(|a, b| a | b)?))
    }

    /// Returns whether they include this permission.
    pub fn include(self, right: Right) -> bool {
        let bits = match right.access {
            Access::Read => READ,
            Access::Write => WRITE,
            Access::Either => READ | WRITE,
        };
        right.areas().any(|area| self.0 >> shift(area) & bits != 0)
    }

    /// Returns whether they include permissions that need keys to be useful.
    pub fn need_keys(self) -> bool {
        let without = [Area::Server, Area::Admin];
        let with = AREAS.iter().map(|(area, _)| *area).filter(|area| !without.contains(area));
        with.into_iter().any(|area| self.include(Right::either(area)))
    }
}

fn shift(area: Area) -> u32 {
    2 * area as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(allow: &[&str]) -> Result<Rights, String> {
        let allow: Vec<String> = allow.iter().map(ToString::to_string).collect();
        Rights::read(&allow).map_err(str::to_owned)
    }

    #[test]
    fn areas_are_allowed_to_read_to_write_or_both() {
        let rights = read(&["cells", "branches:read", "feed:write"]).unwrap();
        let may = |right| rights.include(right);
        assert!(may(Right::read(Area::Cells)) && may(Right::write(Area::Cells)));
        assert!(may(Right::read(Area::Branches)) && !may(Right::write(Area::Branches)));
        assert!(!may(Right::read(Area::Feed)) && may(Right::either(Area::Feed)));
        assert!(!may(Right::either(Area::Server)) && !may(Right::either(Area::Admin)));
    }

    #[test]
    fn a_right_here_or_there_is_had_with_one_of_both() {
        let right = Right::write(Area::Cells).or(Area::Records);
        assert_eq!(right.to_string(), "cells:write or records:write");
        for enough in ["cells:write", "records:write"] {
            assert!(read(&[enough]).unwrap().include(right), "{enough}");
        }
        assert!(!read(&["cells:read", "records:read", "feed"]).unwrap().include(right));
    }

    #[test]
    fn all_is_everything_and_all_read_changes_nothing() {
        assert_eq!(read(&["all"]), Ok(Rights::ALL));
        let reader = read(&["all:read"]).unwrap();
        for (area, _) in AREAS {
            assert!(reader.include(Right::read(area)) && !reader.include(Right::write(area)));
        }
        assert_eq!(read(&[]), Ok(Rights::default()));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for wrong in ["cell", "cells:", "cells:all", "", ":read", "ALL", "cells:read:write"] {
            assert_eq!(read(&["feed", wrong]), Err(wrong.to_owned()), "{wrong}");
        }
    }
}

//! Rights: areas of what can be done, each to read, to write, or both.

use std::fmt;

/// What can be reached. Few, so that people can say who needs what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// Cells and what they hold, now and before.
    Cells,
    /// Records and what they hold, now and before.
    Records,
    /// Runs, their events and what they add up to.
    Runs,
    /// Messages to be sent.
    Outbox,
    /// Spaces of keyed state and what they hold, now and before.
    Keyed,
    /// Sessions: requests in them, and what is sent to their clients.
    Sessions,
    /// Branches and tags.
    Branches,
    /// The feed of changes, values included.
    Feed,
    /// Figures and settings of the server, and who is connected.
    Server,
    /// What concerns everything at once: files, backups, deleting all keys, users.
    Admin,
}

/// All areas, as they are named in settings.
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

/// The names of all areas, as settings have them.
pub(super) fn area_names() -> String {
    AREAS.map(|(_, name)| name).join(", ")
}

/// What is done there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing is changed.
    Read,
    /// Something is changed.
    Write,
    /// One of both is enough.
    Either,
}

/// A right that something needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    area: Area,
    /// The same right there is enough, too.
    others: [Option<Area>; 5],
    access: Access,
}

impl Right {
    /// To read there.
    pub const fn read(area: Area) -> Right {
        Right { area, others: [None; 5], access: Access::Read }
    }

    /// To write there.
    pub const fn write(area: Area) -> Right {
        Right { area, others: [None; 5], access: Access::Write }
    }

    /// To do anything there.
    pub const fn either(area: Area) -> Right {
        Right { area, others: [None; 5], access: Access::Either }
    }

    /// Here or there: one of them is enough. There are at most five others.
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

/// The rights of a user: two bits for each area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rights(u32);

const READ: u32 = 1;
const WRITE: u32 = 2;

impl Rights {
    /// All there are.
    pub const ALL: Rights = Rights(u32::MAX >> (u32::BITS as usize - 2 * AREAS.len()));

    /// Reads what settings allow; what is not understood is given back.
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
        let named = |(_, known): &&(Area, &str)| name == "all" || name == *known;
        let found = AREAS.iter().filter(named).map(|(area, _)| bits << shift(*area));
        Some(Rights(found.reduce(|a, b| a | b)?))
    }

    /// Whether they include this one.
    pub fn include(self, right: Right) -> bool {
        let bits = match right.access {
            Access::Read => READ,
            Access::Write => WRITE,
            Access::Either => READ | WRITE,
        };
        right.areas().any(|area| self.0 >> shift(area) & bits != 0)
    }

    /// Whether there are rights that mean nothing without keys.
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

//! What a command needs: a right, and keys that are the user's.
//!
//! The keys of plans are checked at the waist, as those of all faces are; here stands what has no plan.

use super::plan::Plan;
use super::table::{Group, Spec};
use crate::security::{Area, Denied, Right, User};
use mainstay::{Contract, SmallVec};

/// To do anything with what keys hold.
pub const DATA: Right = Right::either(Area::Cells)
    .or(Area::Records)
    .or(Area::Runs)
    .or(Area::Outbox)
    .or(Area::Keyed)
    .or(Area::Sessions);
/// To read what keys hold, of whichever kind that is.
pub const READ: Right = Right::read(Area::Cells).or(Area::Records);
/// To write what keys hold, of whichever kind that is.
pub const WRITE: Right = Right::write(Area::Cells).or(Area::Records);

/// The kinds of state that a user may read: to its other kinds it is blind.
pub fn kinds(user: Option<&User>) -> SmallVec<[Contract; 2]> {
    let all = [(Contract::Cells, Area::Cells), (Contract::Records, Area::Records)];
    let may = |area| user.is_some_and(|user| user.may(Right::read(area)).is_ok());
    all.into_iter().filter(|(_, area)| may(*area)).map(|(kind, _)| kind).collect()
}

/// Which right a command needs.
#[derive(Clone, Copy)]
pub enum Needs {
    /// That of its group: to write if it writes, else to read.
    Group,
    /// This one.
    Right(Right),
    /// Any there is: what it does is looked at by itself.
    Some,
    /// It depends on its words; nothing: none.
    Words(fn(&[&[u8]]) -> Option<Right>),
}

/// Which keys a command reaches.
#[derive(Clone, Copy)]
pub enum Reach {
    /// Those of its plan, which is checked at the waist; a command without a plan reaches none.
    Plan,
    /// Its words, as [`Spec::keys`] says.
    Words,
    /// All that begin with this.
    Range(fn(&[&[u8]]) -> String),
    /// All there are.
    Everything,
}

impl Spec {
    /// A user has to have the right that it needs, and the keys that it reaches.
    pub fn allow(&self, user: &User, words: &[&[u8]]) -> Result<(), Denied> {
        if user.is_unlimited() {
            return Ok(());
        }
        if matches!(self.needs, Needs::Some) {
            user.may_something()?;
        }
        if let Some(right) = self.right(words) {
            user.may(right)?;
        }
        match self.reach {
            Reach::Plan => Ok(()),
            Reach::Words => self.key_words(words).try_for_each(|key| user.may_touch(key)),
            Reach::Range(prefix) => user.may_list(prefix(words).as_bytes()),
            Reach::Everything => user.may_touch_everything(),
        }
    }

    /// Its plan, as far as a user may do it: what is on names, whatever they hold, is left to those kinds
    /// of state that the user may touch.
    pub fn permit(&self, user: &User, plan: &mut Plan) -> Result<(), Denied> {
        match self.group {
            // Of the server only `DBSIZE` has a plan, which is on names, too.
            Group::Keys | Group::Server => plan.narrowed(user),
            _ => plan.allowed(user),
        }
    }

    /// The right that it needs with these words; the connection's own commands need none.
    pub fn right(&self, words: &[&[u8]]) -> Option<Right> {
        let in_area = if self.writes { Right::write } else { Right::read };
        match (self.needs, self.group) {
            (Needs::Right(right), _) => Some(right),
            (Needs::Words(right), _) => right(words),
            (Needs::Some, _) => None,
            (Needs::Group, Group::Connection) => None,
            (Needs::Group, Group::Strings | Group::Cells) => Some(in_area(Area::Cells)),
            (Needs::Group, Group::Hashes | Group::Records | Group::Jobs) => {
                Some(in_area(Area::Records))
            }
            (Needs::Group, Group::Runs) => Some(in_area(Area::Runs)),
            (Needs::Group, Group::Outbox) => Some(in_area(Area::Outbox)),
            (Needs::Group, Group::Keyed) => Some(in_area(Area::Keyed)),
            (Needs::Group, Group::Sessions) => Some(in_area(Area::Sessions)),
            // They do as much as the user may: see `Plan::narrowed` and `kinds`.
            (Needs::Group, Group::Keys) => Some(in_area(Area::Cells).or(Area::Records)),
            (Needs::Group, Group::Branches) => Some(in_area(Area::Branches)),
            // What stands inside is looked at by itself.
            (Needs::Group, Group::Transactions) => Some(DATA),
            (Needs::Group, Group::Feed) => Some(in_area(Area::Feed)),
            (Needs::Group, Group::Server) => Some(in_area(Area::Server)),
            (Needs::Group, Group::Wire) => Some(Right::write(Area::Admin)),
        }
    }

    fn key_words<'a>(&self, words: &'a [&'a [u8]]) -> impl Iterator<Item = &'a [u8]> {
        let (first, last, step) = self.keys;
        let place = |at: i32| if at < 0 { words.len() as i64 + i64::from(at) } else { at.into() };
        let (first, last) = (place(first).max(0) as usize, place(last).max(0) as usize);
        words.iter().take(last + 1).skip(first).step_by(step.max(1) as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{Run, all, named};
    use super::*;

    #[test]
    fn every_command_that_names_keys_has_them_checked() {
        for spec in all().filter(|spec| spec.keys.0 != 0) {
            let is_data = spec.run.is_planned() || matches!(spec.run, Run::Alone(_));
            assert!(is_data || matches!(spec.reach, Reach::Words), "{}", spec.name);
        }
    }

    #[test]
    fn keys_are_found_where_a_command_says() {
        let keys = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let spec = named(words[0]).unwrap();
            let keys: Vec<_> = spec.key_words(&words).map(String::from_utf8_lossy).collect();
            keys.join(" ")
        };
        assert_eq!(keys("watch a b c"), "a b c");
        assert_eq!(keys("mset a 1 b 2"), "a b");
        assert_eq!(keys("cell.history a LIMIT 3"), "a");
    }
}

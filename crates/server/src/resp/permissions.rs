//! Permission checks of RESP commands: the permission a command needs, and the keys it reaches.
//!
//! The keys of plans are checked in the authorization layer that all front ends share. This module checks
//! commands without a plan.

use super::plan::Plan;
use super::table::{Group, Spec};
use crate::security::{Area, Denied, Right, User};
use mainstay::{Contract, SmallVec};

/// Any permission on the contents of keys.
pub const ANY_DATA: Right = Right::either(Area::Cells)
    .or(Area::Records)
    .or(Area::Runs)
    .or(Area::Outbox)
    .or(Area::Keyed)
    .or(Area::Sessions);
/// Permission to read the contents of keys, whatever their kind.
pub const READ_DATA: Right = Right::read(Area::Cells).or(Area::Records);
/// Permission to write the contents of keys, whatever their kind.
pub const WRITE_DATA: Right = Right::write(Area::Cells).or(Area::Records);

/// Returns the kinds of state that a user may read. Keys of other kinds are invisible to the user.
pub fn readable_kinds(user: Option<&User>) -> SmallVec<[Contract; 2]> {
    let all = [(Contract::Cells, Area::Cells), (Contract::Records, Area::Records)];
    let may = |area| user.is_some_and(|user| user.may(Right::read(area)).is_ok());
    all.into_iter().filter(|(_, area)| may(*area)).map(|(kind, _)| kind).collect()
}

/// The permission that a command needs.
#[derive(Clone, Copy)]
pub enum Requirement {
    /// The permission for its group: write if the command writes, otherwise read.
    Group,
    /// This permission.
    Permission(Right),
    /// Any permission at all, because the command checks its own work.
    AnyPermission,
    /// A permission that depends on the words; `None` needs none.
    Words(fn(&[&[u8]]) -> Option<Right>),
}

/// The keys that a command reaches.
#[derive(Clone, Copy)]
pub enum KeyScope {
    /// The keys of its plan, which the authorization layer checks. A command without a plan reaches no
    /// keys.
    Plan,
    /// The words at the positions in [`Spec::keys`].
    Words,
    /// All keys with this prefix.
    Range(fn(&[&[u8]]) -> String),
    /// All keys.
    Everything,
}

impl Spec {
    /// Checks that a user has the permission and the keys that the command needs.
    pub fn authorize(&self, user: &User, words: &[&[u8]]) -> Result<(), Denied> {
        if user.is_unlimited() {
            return Ok(());
        }
        if matches!(self.requirement, Requirement::AnyPermission) {
            user.may_something()?;
        }
        if let Some(permission) = self.required_permission(words) {
            user.may(permission)?;
        }
        match self.key_scope {
            KeyScope::Plan => Ok(()),
            KeyScope::Words => self.key_words(words).try_for_each(|key| user.may_touch(key)),
            KeyScope::Range(prefix) => user.may_list(prefix(words).as_bytes()),
            KeyScope::Everything => user.may_touch_everything(),
        }
    }

    /// Checks the plan of the command for a user. A plan on names of any kind is reduced to the kinds of
    /// state that the user may access.
    pub fn authorize_plan(&self, user: &User, plan: &mut Plan) -> Result<(), Denied> {
        match self.group {
            // In the server group only `DBSIZE` has a plan, which is on names of any kind as well.
            Group::Keys | Group::Server => plan.restrict_to_permitted(user),
            _ => plan.authorize(user),
        }
    }

    /// Returns the permission that the command needs with these words. Commands about the connection need
    /// none.
    pub fn required_permission(&self, words: &[&[u8]]) -> Option<Right> {
        let in_area = if self.writes { Right::write } else { Right::read };
        match (self.requirement, self.group) {
            (Requirement::Permission(permission), _) => Some(permission),
            (Requirement::Words(permission), _) => permission(words),
            (Requirement::AnyPermission, _) => None,
            (Requirement::Group, Group::Connection) => None,
            (Requirement::Group, Group::Strings | Group::Cells) => Some(in_area(Area::Cells)),
            (Requirement::Group, Group::Hashes | Group::Records | Group::Jobs) => {
                Some(in_area(Area::Records))
            }
            (Requirement::Group, Group::Runs) => Some(in_area(Area::Runs)),
            (Requirement::Group, Group::Outbox) => Some(in_area(Area::Outbox)),
            (Requirement::Group, Group::Keyed) => Some(in_area(Area::Keyed)),
            (Requirement::Group, Group::Sessions) => Some(in_area(Area::Sessions)),
            // These commands are reduced to the user's kinds of state: see `Plan::restrict_to_permitted` and `readable_kinds`.
            (Requirement::Group, Group::Keys) => Some(in_area(Area::Cells).or(Area::Records)),
            (Requirement::Group, Group::Branches) => Some(in_area(Area::Branches)),
            // Each command inside the transaction is checked by itself.
            (Requirement::Group, Group::Transactions) => Some(ANY_DATA),
            (Requirement::Group, Group::Feed) => Some(in_area(Area::Feed)),
            (Requirement::Group, Group::Server) => Some(in_area(Area::Server)),
            (Requirement::Group, Group::Wire) => Some(Right::write(Area::Admin)),
        }
    }

    fn key_words<'a>(&self, words: &'a [&'a [u8]]) -> impl Iterator<Item = &'a [u8]> {
        let (first, last, step) = self.keys;
        let position =
            |at: i32| if at < 0 { words.len() as i64 + i64::from(at) } else { at.into() };
        let first = position(first).max(0) as usize;
        let last = position(last).max(0) as usize;
        words.iter().take(last + 1).skip(first).step_by(step.max(1) as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{Handler, all, by_name};
    use super::*;

    #[test]
    fn every_command_that_names_keys_has_them_checked() {
        for spec in all().filter(|spec| spec.keys.0 != 0) {
            let is_data =
                spec.handler.is_planned() || matches!(spec.handler, Handler::OwnTransaction(_));
            assert!(is_data || matches!(spec.key_scope, KeyScope::Words), "{}", spec.name);
        }
    }

    #[test]
    fn keys_are_found_where_a_command_says() {
        let keys = |line: &str| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let spec = by_name(words[0]).unwrap();
            let keys: Vec<_> = spec.key_words(&words).map(String::from_utf8_lossy).collect();
            keys.join(" ")
        };
        assert_eq!(keys("watch a b c"), "a b c");
        assert_eq!(keys("mset a 1 b 2"), "a b");
        assert_eq!(keys("cell.history a LIMIT 3"), "a");
    }
}

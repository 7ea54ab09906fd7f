//! The table of scan cursors: maps the cursor numbers of clients to names.
//!
//! RESP clients identify a position in a scan by a number, but the database identifies it by a name. This
//! table keeps the newest names, each under a number. A cursor that is too old is invalid, and the scan has
//! to start again. Each user has its own numbers. When the table is full, the user with the most cursors
//! loses its oldest one, so no user can invalidate the cursors of others.

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};

pub struct Cursors {
    limit: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    of_users: BTreeMap<String, OfUser>,
    count: usize,
}

/// The cursors of one user.
#[derive(Default)]
struct OfUser {
    /// The number before the oldest cursor that is kept.
    before: u64,
    names: VecDeque<String>,
}

impl Cursors {
    /// Creates a table for at most `limit` cursors.
    pub fn new(limit: usize) -> Cursors {
        Cursors { limit: limit.max(1), kept: Mutex::default() }
    }

    /// Stores a name for a user. Returns its cursor number.
    pub fn keep(&self, user: &str, name: String) -> u64 {
        let mut kept = self.kept.lock();
        if kept.count >= self.limit {
            kept.forget_one();
        }
        kept.count += 1;
        let own = kept.of_users.entry(user.to_owned()).or_default();
        own.names.push_back(name);
        own.before + own.names.len() as u64
    }

    /// Returns the name after which a scan of a user continues. The inner value is `None` for cursor 0,
    /// where scans start; the outer value is `None` for an unknown cursor.
    pub fn after(&self, user: &str, cursor: u64) -> Option<Option<String>> {
        if cursor == 0 {
            return Some(None);
        }
        let kept = self.kept.lock();
        let own = kept.of_users.get(user)?;
        let place = cursor.checked_sub(own.before + 1)?;
        own.names.get(usize::try_from(place).ok()?).cloned().map(Some)
    }
}

impl Kept {
    /// Removes the oldest cursor of the user with the most. The entry of the user stays, so that no number
    /// is used twice.
    fn forget_one(&mut self) {
        let most = self.of_users.values_mut().max_by_key(|own| own.names.len());
        if let Some(own) = most.filter(|own| !own.names.is_empty()) {
            own.names.pop_front();
            own.before += 1;
            self.count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_again_until_they_are_too_old() {
        let cursors = Cursors::new(100);
        assert_eq!(cursors.after("u", 0), Some(None));
        assert_eq!(cursors.after("u", 1), None);
        let first = cursors.keep("u", "a".to_owned());
        assert_eq!(cursors.after("u", first), Some(Some("a".to_owned())));
        for i in 0..100 {
            let cursor = cursors.keep("u", i.to_string());
            assert_eq!(cursors.after("u", cursor), Some(Some(i.to_string())));
        }
        assert_eq!(cursors.after("u", first), None);
        assert_eq!(cursors.after("u", u64::MAX), None);
    }

    #[test]
    fn one_user_does_not_make_the_places_of_others_forgotten() {
        let cursors = Cursors::new(100);
        let honest = cursors.keep("honest", "h".to_owned());
        let first = cursors.keep("greedy", "g".to_owned());
        for i in 0..1000 {
            cursors.keep("greedy", i.to_string());
        }
        assert_eq!(cursors.after("honest", honest), Some(Some("h".to_owned())));
        assert_eq!(cursors.after("greedy", first), None, "it forgets its own");
        assert_eq!(cursors.kept.lock().count, 100);
    }

    #[test]
    fn a_number_of_one_user_is_no_place_of_another() {
        let cursors = Cursors::new(100);
        let number = cursors.keep("a", "secret".to_owned());
        assert_eq!(cursors.after("b", number), None);
    }
}

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
    table: Mutex<CursorTable>,
}

#[derive(Default)]
struct CursorTable {
    by_user: BTreeMap<String, UserCursors>,
    count: usize,
}

/// The cursors of one user.
#[derive(Default)]
struct UserCursors {
    /// The number before the oldest cursor that is kept.
    evicted: u64,
    names: VecDeque<String>,
}

impl Cursors {
    /// Creates a table for at most `limit` cursors.
    pub fn new(limit: usize) -> Cursors {
        Cursors { limit: limit.max(1), table: Mutex::default() }
    }

    /// Stores a name for a user. Returns its cursor number.
    pub fn insert(&self, user: &str, name: String) -> u64 {
        let mut table = self.table.lock();
        if table.count >= self.limit {
            table.evict_oldest();
        }
        table.count += 1;
        let own = table.by_user.entry(user.to_owned()).or_default();
        own.names.push_back(name);
        own.evicted + own.names.len() as u64
    }

    /// Returns the name after which a scan of a user continues. The inner value is `None` for cursor 0,
    /// where scans start; the outer value is `None` for an unknown cursor.
    pub fn resume_after(&self, user: &str, cursor: u64) -> Option<Option<String>> {
        if cursor == 0 {
            return Some(None);
        }
        let table = self.table.lock();
        let own = table.by_user.get(user)?;
        let index = cursor.checked_sub(own.evicted + 1)?;
        own.names.get(usize::try_from(index).ok()?).cloned().map(Some)
    }
}

impl CursorTable {
    /// Removes the oldest cursor of the user with the most. The entry of the user stays, so that no number
    /// is used twice.
    fn evict_oldest(&mut self) {
        let most = self.by_user.values_mut().max_by_key(|own| own.names.len());
        if let Some(own) = most.filter(|own| !own.names.is_empty()) {
            own.names.pop_front();
            own.evicted += 1;
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
        assert_eq!(cursors.resume_after("u", 0), Some(None));
        assert_eq!(cursors.resume_after("u", 1), None);
        let first = cursors.insert("u", "a".to_owned());
        assert_eq!(cursors.resume_after("u", first), Some(Some("a".to_owned())));
        for i in 0..100 {
            let cursor = cursors.insert("u", i.to_string());
            assert_eq!(cursors.resume_after("u", cursor), Some(Some(i.to_string())));
        }
        assert_eq!(cursors.resume_after("u", first), None);
        assert_eq!(cursors.resume_after("u", u64::MAX), None);
    }

    #[test]
    fn one_user_does_not_make_the_places_of_others_forgotten() {
        let cursors = Cursors::new(100);
        let honest = cursors.insert("honest", "h".to_owned());
        let first = cursors.insert("greedy", "g".to_owned());
        for i in 0..1000 {
            cursors.insert("greedy", i.to_string());
        }
        assert_eq!(cursors.resume_after("honest", honest), Some(Some("h".to_owned())));
        assert_eq!(cursors.resume_after("greedy", first), None, "it forgets its own");
        assert_eq!(cursors.table.lock().count, 100);
    }

    #[test]
    fn a_number_of_one_user_is_no_place_of_another() {
        let cursors = Cursors::new(100);
        let number = cursors.insert("a", "secret".to_owned());
        assert_eq!(cursors.resume_after("b", number), None);
    }
}

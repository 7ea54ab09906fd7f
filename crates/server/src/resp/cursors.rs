//! Cursors: where scans stand.
//!
//! A client knows its place in a scan as a number; ours is a name. The newest names are kept, each
//! under a number: one that was given so long ago that it is forgotten is an invalid cursor, and
//! the scan begins anew.

use parking_lot::Mutex;
use std::collections::VecDeque;

/// Where scans stand.
pub struct Cursors {
    limit: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// The number of the oldest place that is kept, less one.
    before: u64,
    names: VecDeque<String>,
}

impl Cursors {
    /// So many places are kept.
    pub fn new(limit: usize) -> Cursors {
        Cursors { limit: limit.max(1), kept: Mutex::default() }
    }

    /// Keeps a name; gives its number.
    pub fn keep(&self, name: String) -> u64 {
        let mut kept = self.kept.lock();
        if kept.names.len() == self.limit {
            kept.names.pop_front();
            kept.before += 1;
        }
        kept.names.push_back(name);
        kept.before + kept.names.len() as u64
    }

    /// The name behind which a scan goes on: none for 0, where all begin; nothing for a number that is
    /// not known.
    pub fn after(&self, cursor: u64) -> Option<Option<String>> {
        if cursor == 0 {
            return Some(None);
        }
        let kept = self.kept.lock();
        let place = cursor.checked_sub(kept.before + 1)?;
        kept.names.get(usize::try_from(place).ok()?).cloned().map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_again_until_they_are_too_old() {
        let cursors = Cursors::new(100);
        assert_eq!(cursors.after(0), Some(None));
        assert_eq!(cursors.after(1), None);
        let first = cursors.keep("a".to_owned());
        assert_eq!(cursors.after(first), Some(Some("a".to_owned())));
        for i in 0..100 {
            let cursor = cursors.keep(i.to_string());
            assert_eq!(cursors.after(cursor), Some(Some(i.to_string())));
        }
        assert_eq!(cursors.after(first), None);
        assert_eq!(cursors.after(u64::MAX), None);
    }
}

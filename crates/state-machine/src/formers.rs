//! Numbers of removed sessions, which continue in a new session of the same name.

use mainstay_model::{FORMER_KEPT_US, Former};
use mainstay_model::{Name, Stamp};
use std::collections::{BTreeMap, BTreeSet};

/// The removed sessions, by name and by time of removal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Formers {
    by_name: BTreeMap<Name, (Stamp, Former)>,
    by_time: BTreeSet<(Stamp, Name)>,
}

impl Formers {
    /// Remembers a session that is removed now.
    pub(super) fn put(&mut self, name: &Name, gone: Stamp, former: Former) {
        self.take(name);
        self.by_name.insert(name.clone(), (gone, former));
        self.by_time.insert((gone, name.clone()));
    }

    /// Returns the numbers of a name, or the defaults.
    pub(super) fn get(&self, name: &Name) -> Former {
        self.by_name.get(name).map_or(Former::default(), |(_, former)| *former)
    }

    /// Forgets a name, because a new session continues its numbers.
    pub(super) fn take(&mut self, name: &Name) {
        if let Some((gone, _)) = self.by_name.remove(name) {
            self.by_time.remove(&(gone, name.clone()));
        }
    }

    /// Forgets sessions removed a day ago or earlier, and the oldest ones while the limit is exceeded.
    pub(super) fn forget(&mut self, now: Stamp, limit: usize) {
        while let Some((gone, name)) = self.by_time.first().cloned() {
            let is_old = gone.saturating_add(FORMER_KEPT_US) <= now;
            if !is_old && self.by_name.len() <= limit {
                return;
            }
            self.take(&name);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Iterates in name order, with the time of removal.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Name, Stamp, Former)> {
        self.by_name.iter().map(|(name, (gone, former))| (name, *gone, *former))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn former(next_request: u64) -> Former {
        Former { next_request, last_letter: 0 }
    }

    #[test]
    fn numbers_are_remembered_for_a_day_and_the_first_to_go_are_forgotten_first() {
        let [a, b, c] = ["a", "b", "c"].map(|name| Name::new(name).unwrap());
        let mut formers = Formers::default();
        formers.put(&c, 1, former(5));
        formers.put(&a, 2, former(6));
        assert_eq!(formers.len(), 2);
        formers.forget(FORMER_KEPT_US, 2);
        assert_eq!((formers.get(&c), formers.get(&b)), (former(5), Former::default()));
        formers.forget(FORMER_KEPT_US, 1);
        assert_eq!((formers.get(&c), formers.get(&a)), (Former::default(), former(6)));
        formers.forget(FORMER_KEPT_US + 1, 1);
        assert_eq!(formers.len(), 1);
        formers.forget(FORMER_KEPT_US + 2, 1);
        assert_eq!((formers.len(), formers.by_time.len()), (0, 0));
    }
}

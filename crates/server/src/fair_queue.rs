//! A fair queue: owners take turns round-robin, however many items each of them has queued.
//!
//! ```text
//!   a: 1 2 3 4 5      pop --> a1 b1 c1 a2 c2 a3 ...
//!   b: 1
//!   c: 1 2
//! ```
//!
//! An owner with one item therefore waits for at most one item of each other owner.

use std::collections::VecDeque;

/// Queued items, grouped by owner.
#[derive(Debug)]
pub struct FairQueue<O, T> {
    /// The owner whose turn is next comes first. Each owner in this list has at least one item.
    owners: VecDeque<(O, VecDeque<T>)>,
    len: usize,
}

impl<O, T> Default for FairQueue<O, T> {
    fn default() -> FairQueue<O, T> {
        FairQueue { owners: VecDeque::new(), len: 0 }
    }
}

impl<O: PartialEq, T> FairQueue<O, T> {
    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of items of an owner.
    pub fn len_of(&self, owner: &O) -> usize {
        self.owners.iter().find(|(it, _)| it == owner).map_or(0, |(_, items)| items.len())
    }

    /// Appends an item behind all others of its owner.
    pub fn push(&mut self, owner: O, item: T) {
        self.len += 1;
        match self.owners.iter_mut().find(|(it, _)| *it == owner) {
            Some((_, items)) => items.push_back(item),
            None => self.owners.push_back((owner, VecDeque::from([item]))),
        }
    }

    /// Removes and returns the next item. The turn passes to the next owner.
    pub fn pop(&mut self) -> Option<(O, T)>
    where
        O: Clone,
    {
        self.pop_if(|_| true)
    }

    /// Removes and returns the next item of the first owner for which `may` holds. The turn passes to the
    /// next owner.
    pub fn pop_if(&mut self, may: impl Fn(&O) -> bool) -> Option<(O, T)>
    where
        O: Clone,
    {
        let place = self.owners.iter().position(|(owner, _)| may(owner))?;
        let (owner, mut items) = self.owners.remove(place)?;
        let item = items.pop_front()?;
        self.len -= 1;
        if !items.is_empty() {
            self.owners.push_back((owner.clone(), items));
        }
        Some((owner, item))
    }

    /// Removes the items for which `keep` does not hold.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for (_, items) in &mut self.owners {
            items.retain(&mut keep);
        }
        self.owners.retain(|(_, items)| !items.is_empty());
        self.len = self.owners.iter().map(|(_, items)| items.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_take_turns_and_items_of_one_keep_their_order() {
        let mut queue = FairQueue::default();
        (0..100).for_each(|item| queue.push("greedy", item));
        queue.push("honest", 0);
        let next = |queue: &mut FairQueue<_, _>| queue.pop().unwrap();
        assert_eq!(next(&mut queue), ("greedy", 0));
        assert_eq!(next(&mut queue), ("honest", 0), "behind one item and not behind a hundred");
        queue.push("honest", 1);
        assert_eq!(next(&mut queue), ("greedy", 1));
        assert_eq!(next(&mut queue), ("honest", 1));
        assert_eq!((queue.len(), queue.len_of(&"greedy"), queue.len_of(&"honest")), (98, 98, 0));
    }

    #[test]
    fn who_may_not_have_a_turn_is_passed_over() {
        let mut queue = FairQueue::default();
        queue.push("a", 1);
        queue.push("b", 2);
        assert_eq!(queue.pop_if(|owner| *owner != "a"), Some(("b", 2)));
        assert_eq!(queue.pop_if(|owner| *owner != "a"), None);
        queue.push("a", 3);
        queue.retain(|item| *item != 1);
        assert_eq!((queue.pop(), queue.is_empty()), (Some(("a", 3)), true));
    }
}

//! The set of calls that a search has linearized so far.

/// A set of calls: all below an index, and a few others. Calls are sorted by invocation, so linearized
/// calls nearly all precede the others. The set stays small however long the history is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frontier {
    low: u32,
    others: Vec<u32>,
}

impl Frontier {
    /// Returns the first call with a response that is not in the set.
    pub fn low(&self) -> u32 {
        self.low
    }

    /// Returns whether a call is in the set.
    pub fn has(&self, call: u32) -> bool {
        call < self.low || self.others.binary_search(&call).is_ok()
    }

    /// Returns the size of the set.
    pub fn len(&self) -> usize {
        self.low as usize + self.others.len()
    }

    /// Returns the set with one more call. Calls from `settled` on have no response and are never
    /// required.
    pub fn with(&self, call: u32, settled: u32) -> Frontier {
        let mut more = self.clone();
        if let Err(place) = more.others.binary_search(&call) {
            more.others.insert(place, call);
        }
        let joins = |(place, other): &(usize, &u32)| {
            **other == more.low + *place as u32 && **other < settled
        };
        let joined = more.others.iter().enumerate().take_while(joins).count();
        more.others.drain(..joined);
        more.low += joined as u32;
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_in_order_is_one_number() {
        let all = (0..5).fold(Frontier::default(), |done, call| done.with(call, 10));
        assert_eq!(all, Frontier { low: 5, others: Vec::new() });
        let odd = all.with(7, 10).with(6, 10);
        assert_eq!((odd.low(), odd.len()), (5, 7));
        assert!(odd.has(7) && !odd.has(5));
        assert_eq!(odd.with(5, 10).low(), 8);
    }

    #[test]
    fn nobody_waits_for_calls_without_an_answer() {
        let done = Frontier::default().with(1, 1).with(0, 1);
        assert_eq!((done.low(), done.len()), (1, 2));
        assert!(done.has(1) && !done.has(2));
    }
}

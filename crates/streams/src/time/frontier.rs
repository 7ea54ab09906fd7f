//! Frontier of a stream: the lowest logical time that may still arrive.

use mainstay_model::LogicalTime;

/// The lowest logical time that may still arrive. It never decreases. All times below it are complete.
///
/// ```
/// use mainstay_model::LogicalTime;
/// use mainstay_streams::Frontier;
/// let mut frontier = Frontier::default();
/// assert!(!frontier.has_passed(LogicalTime::new(0, 0)));
///
/// assert!(frontier.advance_to(Frontier::after(LogicalTime::new(1, 7))));
/// assert!(frontier.has_passed(LogicalTime::new(1, 7)));
/// assert!(!frontier.has_passed(LogicalTime::new(1, 8)));
///
/// // It never decreases.
/// assert!(!frontier.advance_to(Frontier::after(LogicalTime::new(1, 3))));
/// assert_eq!(frontier.time(), LogicalTime::new(1, 8));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frontier(LogicalTime);

impl Frontier {
    /// The frontier at a time that may still arrive.
    pub fn at(time: LogicalTime) -> Frontier {
        Frontier(time)
    }

    /// The frontier right after a completed time. The highest possible time never completes.
    pub fn after(time: LogicalTime) -> Frontier {
        let LogicalTime { epoch, round } = time;
        let next = match (round.checked_add(1), epoch.checked_add(1)) {
            (Some(round), _) => LogicalTime::new(epoch, round),
            (None, Some(epoch)) => LogicalTime::new(epoch, 0),
            (None, None) => time,
        };
        Frontier(next)
    }

    /// The lowest time that may still arrive.
    pub fn time(self) -> LogicalTime {
        self.0
    }

    /// Returns whether a time is complete.
    pub fn has_passed(self, time: LogicalTime) -> bool {
        time < self.0
    }

    /// Advances to another frontier if that is higher. Returns whether it was.
    pub fn advance_to(&mut self, to: Frontier) -> bool {
        let is_higher = to > *self;
        *self = to.max(*self);
        is_higher
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_the_last_round_of_an_epoch_is_the_next_epoch() {
        let after = |epoch, round| Frontier::after(LogicalTime::new(epoch, round)).time();
        assert_eq!(after(1, u64::MAX), LogicalTime::new(2, 0));
        assert_eq!(after(u64::MAX, u64::MAX), LogicalTime::new(u64::MAX, u64::MAX));
    }
}

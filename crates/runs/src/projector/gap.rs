//! Gaps: missing sequence numbers before existing ones.

use mainstay_model::Stamp;
use serde::{Deserialize, Serialize};

/// A range of sequence numbers without a visible event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    /// The first number.
    pub first: u64,
    /// The last number.
    pub last: u64,
    /// The time when a later event was first seen.
    pub seen_us: Stamp,
    /// The time of the last check.
    pub checked_us: Stamp,
}

impl Gap {
    /// The number of sequence numbers in the gap.
    pub fn width(&self) -> u64 {
        self.last - self.first + 1
    }

    /// The gap between two existing events, if any. It inherits the times of the known gap that it was part
    /// of.
    pub fn between(previous: u64, next: u64, known_gaps: &[Gap], now_us: Stamp) -> Option<Gap> {
        let first = previous + 1;
        let last = next.checked_sub(1)?;
        if first > last {
            return None;
        }
        let old = known_gaps.iter().find(|gap| gap.first <= last && gap.last >= first);
        let (seen_us, checked_us) =
            old.map_or((now_us, now_us), |gap| (gap.seen_us, gap.checked_us));
        Some(Gap { first, last, seen_us, checked_us })
    }

    /// Returns whether the gap is due for a recheck. The older a gap is, the less often it is checked.
    pub fn is_due(&self, now_us: Stamp, least_ms: u64, most_ms: u64) -> bool {
        let age_ms = now_us.saturating_sub(self.seen_us) / 1_000;
        let every_ms = (age_ms / 8).clamp(least_ms, most_ms);
        now_us.saturating_sub(self.checked_us) >= every_ms.saturating_mul(1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_gap_keeps_its_times() {
        let known = [Gap { first: 3, last: 7, seen_us: 10, checked_us: 20 }];
        let rest = Gap::between(5, 8, &known, 99).unwrap();
        assert_eq!(rest, Gap { first: 6, last: 7, seen_us: 10, checked_us: 20 });
        assert_eq!(Gap::between(8, 10, &known, 99).unwrap().seen_us, 99);
        assert_eq!(Gap::between(8, 9, &known, 99), None);
        assert_eq!(rest.width(), 2);
    }

    #[test]
    fn an_old_gap_is_looked_at_less_often() {
        let gap = |seen_us| Gap { first: 1, last: 1, seen_us, checked_us: 100_000_000 };
        assert!(gap(100_000_000).is_due(101_000_000, 1_000, 60_000));
        assert!(!gap(100_000_000).is_due(100_999_000, 1_000, 60_000));
        assert!(!gap(0).is_due(110_000_000, 1_000, 60_000));
        assert!(gap(0).is_due(115_000_000, 1_000, 60_000));
    }
}

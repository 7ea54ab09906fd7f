//! Time arithmetic for waits, on the database clock.

use mainstay::Stamp;
use std::time::Duration;

/// The end of a timeout that begins now.
pub(crate) fn after(now: Stamp, timeout: Duration) -> Stamp {
    now.saturating_add(u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX))
}

/// The duration until a time, or zero if it has passed.
pub(crate) fn remaining(now: Stamp, deadline: Stamp) -> Duration {
    Duration::from_micros(deadline.saturating_sub(now))
}

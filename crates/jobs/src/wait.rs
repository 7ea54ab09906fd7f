//! Waiting by the database's own time.

use mainstay::Stamp;
use std::time::Duration;

/// When a timeout that begins now ends.
pub(crate) fn end_of(now: Stamp, timeout: Duration) -> Stamp {
    now.saturating_add(u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX))
}

/// How long it is until a moment.
pub(crate) fn between(now: Stamp, until: Stamp) -> Duration {
    Duration::from_micros(until.saturating_sub(now))
}

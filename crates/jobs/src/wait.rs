//! Waiting by the database's own time.

use mainstay::{Code, Database, Result, Revision, Stamp};
use std::time::Duration;

/// When a timeout that begins now ends.
pub(crate) fn end_of(now: Stamp, timeout: Duration) -> Stamp {
    now.saturating_add(u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX))
}

/// Waits until something is written behind a revision, or until a moment.
pub(crate) fn for_change(db: &Database, seen: Revision, now: Stamp, until: Stamp) -> Result<()> {
    let timeout = Duration::from_micros(until.saturating_sub(now));
    match db.wait_for(seen + 1, timeout) {
        Err(error) if error.code() == Code::TimedOut => Ok(()),
        other => other,
    }
}

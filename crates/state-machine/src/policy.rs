//! Snapshot policy: decides when a snapshot is due.

/// The default number of log entries between snapshots.
pub const SNAPSHOT_ENTRIES: u64 = 1_000;
/// The default size of the log between snapshots, in bytes.
pub const SNAPSHOT_LOG_BYTES: u64 = 16 << 20;

/// A snapshot is due after this many log entries or bytes.
///
/// ```
/// use mainstay_state_machine::{SinceSnapshot, SnapshotPolicy};
/// let policy = SnapshotPolicy::default();
/// let since = SinceSnapshot { last_index: 500, commit_index: 1_499, ..SinceSnapshot::default() };
/// assert!(!policy.should_take_snapshot(since));
/// assert!(policy.should_take_snapshot(SinceSnapshot { commit_index: 1_500, ..since }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotPolicy {
    /// The number of entries.
    pub entries: u64,
    /// The number of bytes, but at least the size of the last snapshot. Otherwise a large state would be
    /// rewritten again and again for a small log.
    pub log_bytes: u64,
}

/// The log's progress since the last snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinceSnapshot {
    /// The last entry in the last snapshot; 0 if no snapshot exists.
    pub last_index: u64,
    /// The size of that snapshot, in bytes.
    pub last_bytes: u64,
    /// The last applied entry.
    pub commit_index: u64,
    /// The size of the entries in between, in bytes; 0 if unknown.
    pub log_bytes: u64,
}

impl Default for SnapshotPolicy {
    fn default() -> SnapshotPolicy {
        SnapshotPolicy { entries: SNAPSHOT_ENTRIES, log_bytes: SNAPSHOT_LOG_BYTES }
    }
}

impl SnapshotPolicy {
    /// Returns whether a snapshot is due. Without new entries none is.
    pub fn should_take_snapshot(&self, since: SinceSnapshot) -> bool {
        let entries = since.commit_index.saturating_sub(since.last_index);
        let by_size = since.log_bytes >= self.log_bytes.max(since.last_bytes);
        entries > 0 && (entries >= self.entries || by_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_due_by_entries_or_by_size() {
        let policy = SnapshotPolicy { entries: 10, log_bytes: 100 };
        let due = |last_index, last_bytes, commit_index, log_bytes| {
            let since = SinceSnapshot { last_index, last_bytes, commit_index, log_bytes };
            policy.should_take_snapshot(since)
        };
        assert!(!due(5, 0, 14, 99) && due(5, 0, 15, 0), "entries");
        assert!(due(5, 0, 6, 100) && !due(5, 101, 6, 100) && due(5, 101, 6, 101), "bytes");
        assert!(!due(5, 0, 5, 1_000) && !due(5, 0, 4, 1_000), "nothing has happened");
    }
}

//! A log of recently written keys by revision, for conflict detection with optimistic concurrency.
//!
//! A transaction that scanned a range commits only if nothing in the range was written since its snapshot. To
//! check that, it iterates the writes after the snapshot, so the writer never scans the range again. The
//! committing thread checks the writes up to the newest revision before it enters the writer. The writer
//! checks only the writes since.
//!
//! Deletions by the expiry sweep are not recorded. A reader that saw a key alive knows its expiry time, and
//! for all other readers the key was already expired.
//!
//! ```text
//!   chunk { last revision, | revision u64 | key length u16 | key | ... }   oldest chunks are dropped first
//! ```

use mainstay_model::Revision;
use parking_lot::RwLock;
use std::collections::VecDeque;
use std::sync::Arc;

/// The log covers this many revisions, or fewer if they exceed its memory limit.
const WINDOW_REVISIONS: u64 = 1_000_000;
/// Maximum memory of the log in bytes.
const LIMIT_BYTES: usize = 12 << 20;
const CHUNK_BYTES: usize = 64 << 10;

pub struct RecentWrites {
    chunks: RwLock<WriteChunks>,
    #[cfg(any(test, feature = "test-hooks"))]
    walks: std::sync::atomic::AtomicU64,
}

struct WriteChunks {
    all: VecDeque<Arc<WriteChunk>>,
    /// Every write after this revision is recorded.
    start: Revision,
    bytes: usize,
}

#[derive(Default, Clone)]
struct WriteChunk {
    last: Revision,
    bytes: Vec<u8>,
}

impl RecentWrites {
    pub fn new(start: Revision) -> RecentWrites {
        RecentWrites {
            chunks: RwLock::new(WriteChunks { all: VecDeque::new(), start, bytes: 0 }),
            #[cfg(any(test, feature = "test-hooks"))]
            walks: Default::default(),
        }
    }

    /// Records the keys written by a transaction.
    pub fn record<'a>(&self, revision: Revision, keys: impl Iterator<Item = &'a [u8]>) {
        let mut chunks = self.chunks.write();
        let chunk = chunks.open();
        let before = chunk.bytes.len();
        for key in keys {
            chunk.bytes.extend_from_slice(&revision.to_le_bytes());
            chunk.bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
            chunk.bytes.extend_from_slice(key);
        }
        chunk.last = revision;
        let grown = chunk.bytes.len() - before;
        chunks.bytes += grown;
        chunks.forget(revision);
    }

    /// Removes the writes after a revision, because they were undone.
    pub fn undo(&self, after: Revision) {
        let mut chunks = self.chunks.write();
        while chunks.all.back().is_some_and(|chunk| chunk.last > after) {
            let Some(chunk) = chunks.all.pop_back() else { break };
            chunks.bytes -= chunk.bytes.len();
            let keep: usize =
                writes(&chunk.bytes).take_while(|w| w.0 <= after).map(|w| 10 + w.1.len()).sum();
            if keep > 0 {
                chunks.bytes += keep;
                let bytes = chunk.bytes[..keep].to_vec();
                chunks.all.push_back(Arc::new(WriteChunk { last: after, bytes }));
                return;
            }
        }
    }

    /// Returns whether every write after `since` is recorded.
    pub fn reaches(&self, since: Revision) -> bool {
        since >= self.chunks.read().start
    }

    /// Returns whether any write after `since`, up to `upto`, matches; `None` if the log does not reach back
    /// that far.
    pub fn any_between(
        &self,
        since: Revision,
        upto: Revision,
        mut matches: impl FnMut(&[u8]) -> bool,
    ) -> Option<bool> {
        self.any_at(since, upto, |_, key| matches(key))
    }

    /// Returns whether any write after `since`, up to `upto`, matches by revision and key; `None` if the log
    /// does not reach back that far.
    pub fn any_at(
        &self,
        since: Revision,
        upto: Revision,
        mut matches: impl FnMut(Revision, &[u8]) -> bool,
    ) -> Option<bool> {
        #[cfg(any(test, feature = "test-hooks"))]
        self.walks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let chunks = {
            let chunks = self.chunks.read();
            if since < chunks.start {
                return None;
            }
            let first = chunks.all.partition_point(|chunk| chunk.last <= since);
            chunks.all.range(first..).cloned().collect::<Vec<_>>()
        };
        let mut hits = chunks.iter().flat_map(|chunk| writes(&chunk.bytes));
        Some(
            hits.any(|(revision, key)| {
                revision > since && revision <= upto && matches(revision, key)
            }),
        )
    }

    /// The number of iterations over the log.
    #[cfg(any(test, feature = "test-hooks"))]
    pub fn walks(&self) -> u64 {
        self.walks.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl WriteChunks {
    fn open(&mut self) -> &mut WriteChunk {
        if self.all.back().is_none_or(|chunk| chunk.bytes.len() >= CHUNK_BYTES) {
            let bytes = Vec::with_capacity(CHUNK_BYTES + 2048);
            self.all.push_back(Arc::new(WriteChunk { last: 0, bytes }));
        }
        let last = self.all.len() - 1;
        // Copy-on-write: a reader that still uses the chunk keeps the old copy.
        Arc::make_mut(&mut self.all[last])
    }

    fn forget(&mut self, newest: Revision) {
        let too_old = newest.saturating_sub(WINDOW_REVISIONS);
        while self.all.len() > 1
            && (self.bytes > LIMIT_BYTES || self.all.front().is_some_and(|c| c.last <= too_old))
        {
            let Some(chunk) = self.all.pop_front() else { return };
            self.start = self.start.max(chunk.last);
            self.bytes -= chunk.bytes.len();
        }
    }
}

fn writes(mut bytes: &[u8]) -> impl Iterator<Item = (Revision, &[u8])> {
    std::iter::from_fn(move || {
        let (revision, rest) = bytes.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        bytes = rest;
        Some((u64::from_le_bytes(*revision), key))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(trail: &RecentWrites, revision: Revision, key: &str) {
        trail.record(revision, [key.as_bytes()].into_iter());
    }

    #[test]
    fn only_writes_behind_the_snapshot_count() {
        let trail = RecentWrites::new(0);
        note(&trail, 1, "a");
        note(&trail, 2, "b");
        let hit = |since, upto, key: &str| trail.any_between(since, upto, |k| k == key.as_bytes());
        assert_eq!(hit(0, 9, "a"), Some(true));
        assert_eq!(hit(1, 9, "a"), Some(false));
        assert_eq!(hit(1, 9, "b"), Some(true));
        assert_eq!(hit(0, 1, "b"), Some(false));
        trail.undo(1);
        assert_eq!(hit(0, 9, "b"), Some(false));
        assert_eq!(hit(0, 9, "a"), Some(true));
    }

    #[test]
    fn beyond_its_window_the_trail_says_that_it_does_not_know() {
        let trail = RecentWrites::new(0);
        for revision in 1..=WINDOW_REVISIONS + 100_000 {
            note(&trail, revision, "key of some length");
        }
        assert_eq!(trail.any_between(0, u64::MAX, |_| true), None);
        assert_eq!(trail.any_between(WINDOW_REVISIONS + 99_999, u64::MAX, |_| true), Some(true));
        assert!(trail.chunks.read().bytes <= LIMIT_BYTES + CHUNK_BYTES + 2048);
    }

    #[test]
    fn undo_reaches_over_several_chunks() {
        let trail = RecentWrites::new(0);
        for revision in 1..=10_000 {
            note(&trail, revision, "some key");
        }
        trail.undo(100);
        assert_eq!(trail.any_between(99, u64::MAX, |_| true), Some(true));
        assert_eq!(trail.any_between(100, u64::MAX, |_| true), Some(false));
        note(&trail, 101, "new");
        assert_eq!(trail.any_between(100, u64::MAX, |key| key == b"new"), Some(true));
    }
}

//! Prefetched reads of a transaction, and the check that they are still valid when the writer runs it.

use crate::commit::prepared::PreparedTransaction;
use crate::mvcc::recent_writes::RecentWrites;
use crate::mvcc::write_set::WriteSet;
use mainstay_model::{Answer, Error, Result, Revision, SmallVec, Stamp};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// Answers to some steps of a transaction, with the key ranges that they rest on.
pub struct Prefetched {
    branch: u32,
    /// The revision up to which `written` is complete.
    pub revision: Revision,
    /// Stretches that other transactions wrote during the read.
    written: BTreeSet<usize>,
    /// The sorted bounds of all ranges. A stretch is the keys between two neighbouring bounds.
    bounds: Vec<Vec<u8>>,
    /// Reads by the position of their step.
    reads: HashMap<usize, PrefetchedRead>,
    /// Set if the transaction asked for too much before everything was read.
    failed: Option<Error>,
}

struct PrefetchedRead {
    /// Taken out by the writer, because it may be large and is used only once.
    answer: Mutex<Option<Answer>>,
    /// The stretches that the answer rests on.
    stretches: SmallVec<[Range<usize>; 2]>,
    /// The first expiry among the rows found.
    expires: Option<Stamp>,
}

/// A half-open range of keys: from the first key up to, and without, the second. `None` means no upper
/// bound.
pub type KeyRange = (Vec<u8>, Option<Vec<u8>>);

/// An answer and the key ranges that it rests on.
pub struct PrefetchedAnswer {
    pub answer: Answer,
    pub keys: SmallVec<[KeyRange; 2]>,
    /// The first expiry among the rows found.
    pub expires: Option<Stamp>,
}

impl Prefetched {
    /// Reads of a branch at a revision, by the positions of their steps.
    pub fn new(
        (branch, revision): (u32, Revision),
        found: Vec<(usize, PrefetchedAnswer)>,
        failed: Option<Error>,
    ) -> Prefetched {
        let keys = found.iter().flat_map(|(_, found)| &found.keys);
        let ends = keys.flat_map(|(from, to)| [Some(from), to.as_ref()]);
        let bounds: BTreeSet<&Vec<u8>> = ends.flatten().collect();
        let bounds: Vec<Vec<u8>> = bounds.into_iter().cloned().collect();
        let stretches = |(from, to): &KeyRange| {
            let first = stretch_of(&bounds, from);
            // No key lies behind the last stretch.
            let end = to.as_ref().map_or(bounds.len() + 1, |to| stretch_of(&bounds, to));
            first..end.max(first)
        };
        let reads =
            found.into_iter().map(|(position, PrefetchedAnswer { answer, keys, expires })| {
                let stretches = keys.iter().map(stretches).collect();
                (position, PrefetchedRead { answer: Mutex::new(Some(answer)), stretches, expires })
            });
        let reads = reads.collect();
        Prefetched { branch, revision, written: BTreeSet::new(), bounds, reads, failed }
    }

    /// Records the stretches that other transactions wrote during the read, so that the writer checks
    /// only later writes. If the recent writes do not reach back that far, nothing is recorded, and the
    /// writer's own check fails the same way.
    pub fn catch_up(&mut self, trail: &RecentWrites, upto: Revision) {
        if let Some(written) = self.written(trail, upto) {
            (self.written, self.revision) = (written, upto.max(self.revision));
        }
    }

    /// Returns the stretches written up to a revision; `None` if the recent writes do not reach back
    /// that far.
    fn written(&self, trail: &RecentWrites, upto: Revision) -> Option<BTreeSet<usize>> {
        let mut written = self.written.clone();
        trail.any_between(self.revision, upto, |key| {
            written.insert(stretch_of(&self.bounds, key));
            false
        })?;
        Some(written)
    }
}

/// Returns the number of the stretch that a key lies in. Stretch 0 is before the first bound.
fn stretch_of(bounds: &[Vec<u8>], key: &[u8]) -> usize {
    bounds.partition_point(|bound| bound.as_slice() <= key)
}

/// The writer's view of prefetched reads, step by step.
pub(crate) struct Reuse<'p> {
    prefetched: &'p Prefetched,
    /// Stretches written since the read, by other transactions or by this one.
    written: BTreeSet<usize>,
    /// The number of the transaction's own writes that are in `written`.
    passed: usize,
    /// The position of the next step.
    position: usize,
}

impl<'p> Reuse<'p> {
    /// Returns the prefetched reads if the steps are executed on the branch that was read. Fails if the
    /// transaction asks for too much.
    pub fn of(
        submitted: &'p PreparedTransaction,
        held: bool,
        trail: &RecentWrites,
        branch: u32,
    ) -> Result<Option<Reuse<'p>>> {
        let prefetched = submitted.prefetched();
        let prefetched = prefetched.filter(|prefetched| held && prefetched.branch == branch);
        let Some(prefetched) = prefetched else { return Ok(None) };
        if let Some(failed) = &prefetched.failed {
            return Err(failed.clone());
        }
        let written = prefetched.written(trail, Revision::MAX);
        Ok(written.map(|written| Reuse { prefetched, written, passed: 0, position: 0 }))
    }

    /// Returns the prefetched answer of the next step if it is still valid.
    pub fn next(&mut self, overlay: &WriteSet, now: Stamp) -> Option<Answer> {
        let prefetched = self.prefetched;
        let position = self.position;
        self.position += 1;
        let read = prefetched.reads.get(&position)?;
        let own = overlay.effects().get(self.passed..).unwrap_or_default();
        let stretches = own.iter().map(|effect| stretch_of(&prefetched.bounds, &effect.key));
        self.written.extend(stretches);
        self.passed = overlay.effects().len();
        let unwritten = read
            .stretches
            .iter()
            .all(|stretches| self.written.range(stretches.clone()).next().is_none());
        let lives = read.expires.is_none_or(|expires| expires > now);
        (unwritten && lives).then(|| read.answer.lock().take()).flatten()
    }
}

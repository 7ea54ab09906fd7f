//! Reads of a transaction that were made before the writer was asked, and whether they still hold.

use crate::commit::prepared::PreparedTransaction;
use crate::mvcc::recent_writes::RecentWrites;
use crate::mvcc::write_set::WriteSet;
use mainstay_model::{Answer, Error, Result, Revision, SmallVec, Stamp};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// Answers to some steps of a transaction, with the ranges of keys that they rest on.
pub(crate) struct Prefetched {
    branch: u32,
    /// Up to here it is known which stretches were written.
    pub revision: Revision,
    /// Stretches that others wrote while it was read.
    written: BTreeSet<usize>,
    /// Where the ranges begin and end, in order: between two of them lies a stretch.
    bounds: Vec<Vec<u8>>,
    /// By the position of the step.
    reads: HashMap<usize, PrefetchedRead>,
    /// The transaction asked for too much before all was read.
    failed: Option<Error>,
}

/// One of them.
struct PrefetchedRead {
    /// Taken by the writer: it may be large, and nobody wants it twice.
    answer: Mutex<Option<Answer>>,
    /// The stretches that it rests on.
    stretches: SmallVec<[Range<usize>; 2]>,
    /// When the first of what it found expires.
    expires: Option<Stamp>,
}

/// Keys from the first one up to another, which is not among them.
pub(crate) type KeyRange = (Vec<u8>, Option<Vec<u8>>);

/// An answer and the keys that it rests on.
pub(crate) struct PrefetchedAnswer {
    pub answer: Answer,
    pub keys: SmallVec<[KeyRange; 2]>,
    /// When the first of them expires.
    pub expires: Option<Stamp>,
}

impl Prefetched {
    /// Reads of a branch as of a revision, by the positions of their steps.
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
            // Nothing lies behind the last stretch.
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

    /// Notes the stretches that others wrote during the read, so that the writer checks only later writes. If the trail does not
    /// reach back so far, it does not for the writer either.
    pub fn catch_up(&mut self, trail: &RecentWrites, upto: Revision) {
        if let Some(written) = self.written(trail, upto) {
            (self.written, self.revision) = (written, upto.max(self.revision));
        }
    }

    /// The stretches that were written up to a revision; nothing where nobody remembers.
    fn written(&self, trail: &RecentWrites, upto: Revision) -> Option<BTreeSet<usize>> {
        let mut written = self.written.clone();
        trail.any_between(self.revision, upto, |key| {
            written.insert(stretch_of(&self.bounds, key));
            false
        })?;
        Some(written)
    }
}

/// The number of the stretch that a key lies in; 0 is that before all bounds.
fn stretch_of(bounds: &[Vec<u8>], key: &[u8]) -> usize {
    bounds.partition_point(|bound| bound.as_slice() <= key)
}

/// Prefetched reads as the writer uses them, step by step.
pub(crate) struct Reuse<'p> {
    prefetched: &'p Prefetched,
    /// Stretches that were written since, by others or by the transaction itself.
    written: BTreeSet<usize>,
    /// How many of its own writes are among them.
    passed: usize,
    /// The step that comes next.
    position: usize,
}

impl<'p> Reuse<'p> {
    /// The reads of a transaction whose steps are executed on this branch, if there are any; the error says that they ask for too
    /// much.
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

    /// The answer to the next step, if it is still the right one.
    pub fn next(&mut self, overlay: &WriteSet, now: Stamp) -> Option<Answer> {
        let prefetched = self.prefetched;
        let position = self.position;
        self.position += 1;
        let read = prefetched.reads.get(&position)?;
        let own = overlay.effects().get(self.passed..).unwrap_or_default();
        let stretches = own.iter().map(|effect| stretch_of(&prefetched.bounds, &effect.key));
        self.written.extend(stretches);
        self.passed = overlay.effects().len();
        let is_unwritten =
            |stretches: &Range<usize>| self.written.range(stretches.clone()).next().is_none();
        let unwritten = read.stretches.iter().all(is_unwritten);
        let lives = read.expires.is_none_or(|expires| expires > now);
        (unwritten && lives).then(|| read.answer.lock().take()).flatten()
    }
}

//! Deduplication of outputs by their ids.
//!
//! ```text
//!   outputs with repeats --is the id in the log of its key?--> new outputs
//!                              append_unique(key, id)
//! ```
//!
//! The ids are stored in a keyed state space and not in memory. Therefore an old id is recognized at any
//! later time, in any order of outputs, and after a restart.

use crate::files::with_context;
use crate::output::Output;
use mainstay_model::{Error, KeyedState, Result, StateWrite};
use std::sync::Arc;

/// The ids that a reader has seen, stored in a space of its own.
///
/// A reader whose results are in the same space is exactly-once: it writes them together with
/// [`mark`](OutputIdSet::mark).
///
/// ```
/// use mainstay_model::{KeyedState, LogicalTime, StateWrite};
/// use mainstay_streams::{Cause, MemoryState, Output, OutputIdSet};
/// use std::sync::Arc;
/// let space = Arc::new(MemoryState::new());
/// let ids = OutputIdSet::new(space.clone());
/// let output = Output::new("o", b"k", Cause::Item(LogicalTime::new(0, 1)), 0, "v");
/// for _ in 0..2 {
///     if ids.is_new(&output)? {
///         space.write(vec![StateWrite::put("sum", output.value, output.version), ids.mark(&output)])?;
///     }
/// }
/// assert!(!ids.is_new(&output)?);
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone)]
pub struct OutputIdSet {
    space: Arc<dyn KeyedState>,
}

impl OutputIdSet {
    /// Uses the ids stored in a space.
    pub fn new(space: Arc<dyn KeyedState>) -> OutputIdSet {
        OutputIdSet { space }
    }

    /// Returns whether an output has not been seen.
    pub fn is_new<O>(&self, output: &Output<O>) -> Result<bool> {
        let id = output.id.as_bytes();
        // Start right before the id: the next item has this id if the log contains it.
        let predecessor = (u128::from_be_bytes(*id).checked_sub(1)).map(u128::to_be_bytes);
        let items = self.space.items(&output.key, predecessor.as_ref().map(|id| &id[..]), 1)?;
        Ok(items.first().is_none_or(|item| item.id != id))
    }

    /// The write that marks an output as seen.
    pub fn mark<O>(&self, output: &Output<O>) -> StateWrite {
        StateWrite::append(&output.key[..], &output.id.as_bytes()[..], Vec::new())
    }

    /// Marks an output as seen. Returns whether it is new.
    fn insert<O>(&self, output: &Output<O>) -> Result<bool> {
        let outcomes = self.space.write(vec![self.mark(output)])?;
        Ok(outcomes.first().is_some_and(|outcomes| outcomes.took_effect()))
    }
}

/// Iterator adapter that yields each output once. An output is marked when it is yielded, so a reader that
/// fails afterwards does not get it again. A reader that must not lose outputs uses [`OutputIdSet`] directly.
///
/// ```
/// use mainstay_model::LogicalTime;
/// use mainstay_streams::{Cause, Deduplicator, MemoryState, Output, OutputIdSet};
/// use std::sync::Arc;
/// let output = |round| Output::new("o", b"k", Cause::Item(LogicalTime::new(0, round)), 0, round);
/// let replayed = [output(1), output(2), output(1), output(3), output(2)];
/// let deduplicated = Deduplicator::new(replayed, OutputIdSet::new(Arc::new(MemoryState::new())));
/// let values: Vec<u64> = deduplicated.map(|output| output.unwrap().value).collect();
/// assert_eq!(values, [1, 2, 3]);
/// ```
pub struct Deduplicator<I> {
    outputs: I,
    ids: OutputIdSet,
}

impl<I> Deduplicator<I> {
    /// Filters outputs by the ids in `ids`.
    pub fn new<T: IntoIterator<IntoIter = I>>(outputs: T, ids: OutputIdSet) -> Deduplicator<I> {
        Deduplicator { outputs: outputs.into_iter(), ids }
    }
}

impl<O, I: Iterator<Item = Output<O>>> Iterator for Deduplicator<I> {
    type Item = Result<Output<O>>;

    fn next(&mut self) -> Option<Result<Output<O>>> {
        loop {
            let output = self.outputs.next()?;
            match self.ids.insert(&output) {
                Ok(true) => return Some(Ok(output)),
                Ok(false) => {}
                Err(error) => return Some(Err(lookup_error(&output, &error))),
            }
        }
    }
}

#[cold]
fn lookup_error<O>(output: &Output<O>, error: &Error) -> Error {
    with_context(format_args!("whether output {} was seen is not known", output.id), error)
}

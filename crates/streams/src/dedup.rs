//! Outputs that come more than once, each given once.
//!
//! ```text
//!   outputs, some again --is the id in the log of its key?--> new ones
//!                              append_unique(key, id)
//! ```
//!
//! The ids are in a space, not in memory: an id that was seen is known however long ago that was and in whatever order
//! outputs come, and it is known after a restart.

use crate::files::within;
use crate::output::Output;
use mainstay_model::{Error, KeyedState, Result, StateWrite};
use std::sync::Arc;

/// The ids that a reader has seen, in a space of its own.
///
/// A reader that keeps what it makes of outputs in the same space does so exactly once: it writes that together with
/// [`mark`](Seen::mark).
///
/// ```
/// use mainstay_model::{KeyedState, LogicalTime, StateWrite};
/// use mainstay_streams::{Cause, MemoryState, Output, Seen};
/// use std::sync::Arc;
/// let space = Arc::new(MemoryState::new());
/// let seen = Seen::new(space.clone());
/// let output = Output::new("o", b"k", Cause::Item(LogicalTime::new(0, 1)), 0, "v");
/// for _ in 0..2 {
///     if seen.is_new(&output)? {
///         space.write(vec![StateWrite::put("sum", output.value, output.version), seen.mark(&output)])?;
///     }
/// }
/// assert!(!seen.is_new(&output)?);
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone)]
pub struct Seen {
    space: Arc<dyn KeyedState>,
}

impl Seen {
    /// The ids that a space has.
    pub fn new(space: Arc<dyn KeyedState>) -> Seen {
        Seen { space }
    }

    /// Whether an output was not seen.
    pub fn is_new<O>(&self, output: &Output<O>) -> Result<bool> {
        let id = output.id.as_bytes();
        // Right before the id: what comes behind that is the id, if the log has it.
        let before = (u128::from_be_bytes(*id).checked_sub(1)).map(u128::to_be_bytes);
        let found = self.space.items(&output.key, before.as_ref().map(|id| &id[..]), 1)?;
        Ok(found.first().is_none_or(|item| item.id != id))
    }

    /// The write that says that an output was seen.
    pub fn mark<O>(&self, output: &Output<O>) -> StateWrite {
        StateWrite::append(&output.key[..], &output.id.as_bytes()[..], Vec::new())
    }

    /// Says that an output was seen; gives whether it was not before.
    fn take<O>(&self, output: &Output<O>) -> Result<bool> {
        let wrote = self.space.write(vec![self.mark(output)])?;
        Ok(wrote.first().is_some_and(|wrote| wrote.took_effect()))
    }
}

/// Gives each output once, whatever comes how often. An output is seen when it is given: a reader that fails then does not
/// get it again. One that cannot lose any uses [`Seen`] itself.
///
/// ```
/// use mainstay_model::LogicalTime;
/// use mainstay_streams::{Cause, Deduplicating, MemoryState, Output, Seen};
/// use std::sync::Arc;
/// let output = |round| Output::new("o", b"k", Cause::Item(LogicalTime::new(0, round)), 0, round);
/// let come = [output(1), output(2), output(1), output(3), output(2)];
/// let once = Deduplicating::new(come, Seen::new(Arc::new(MemoryState::new())));
/// let values: Vec<u64> = once.map(|output| output.unwrap().value).collect();
/// assert_eq!(values, [1, 2, 3]);
/// ```
pub struct Deduplicating<I> {
    outputs: I,
    seen: Seen,
}

impl<I> Deduplicating<I> {
    /// Outputs, and those that were seen before.
    pub fn new<T: IntoIterator<IntoIter = I>>(outputs: T, seen: Seen) -> Deduplicating<I> {
        Deduplicating { outputs: outputs.into_iter(), seen }
    }
}

impl<O, I: Iterator<Item = Output<O>>> Iterator for Deduplicating<I> {
    type Item = Result<Output<O>>;

    fn next(&mut self) -> Option<Result<Output<O>>> {
        loop {
            let output = self.outputs.next()?;
            match self.seen.take(&output) {
                Ok(true) => return Some(Ok(output)),
                Ok(false) => {}
                Err(error) => return Some(Err(not_known(&output, &error))),
            }
        }
    }
}

#[cold]
fn not_known<O>(output: &Output<O>, error: &Error) -> Error {
    within(format_args!("whether output {} was seen is not known", output.id), error)
}

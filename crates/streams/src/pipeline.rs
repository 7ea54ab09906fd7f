//! A pipeline: sources, an operator, sinks, and the state that all of them agree with.
//!
//! ```text
//!   sources --batch--> operator --outputs--> sinks.write, flush
//!                         |                        |
//!                  new states           their positions
//!                         '------------+-----------'
//!                                      v
//!             ONE write: states, positions of sources and sinks, watermark
//! ```
//!
//! Whenever it is looked at, the state says how far each source was read for it and how much each sink has taken of what it
//! gave. So going on after a crash is: read the positions, seek, tell the sinks. What a sink took
//! beyond that is given up and comes again, the same.

mod barrier;
mod builder;
mod progress;
mod recovery;

pub use barrier::Barrier;
pub use builder::PipelineBuilder;
pub use progress::Progress;

use crate::coordinator::Place;
use crate::frontier::Frontier;
use crate::operator::Operator;
use crate::outlet::{Behind, Outlet};
use crate::position;
use crate::runner::{Keyed, Runner, Taken};
use crate::source::{Arrived, Merged};
use crate::working::Working;
use mainstay_model::{
    Code, Error, ErrorKind, KeyedState, Result, STATE_KEY_LIMIT_BYTES, StateWrite, Wrote, key_group,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Sources, an operator and sinks over one space of state, which belongs to this pipeline alone.
///
/// ```
/// use mainstay_model::KeyedState;
/// use mainstay_streams::{Items, MemorySink, MemoryState, Pipeline, StatefulOperator};
/// use std::sync::Arc;
///
/// let counts = || StatefulOperator::new("counts", |word: &&str| *word, |count: Option<u32>, word, _| {
///     let count = count.unwrap_or(0) + 1;
///     Ok((Some(count), vec![format!("{word} {count}")]))
/// });
/// let words = || Items::new("words", ["so", "it", "goes", "so"]);
/// let (state, sink) = (Arc::new(MemoryState::new()), MemorySink::new("told"));
///
/// let mut pipeline = Pipeline::of(counts()).source(words()).sink(sink.clone()).batch(2).open(state.clone())?;
/// pipeline.step()?;
/// drop(pipeline);
///
/// // Another process goes on where the state says.
/// let mut pipeline = Pipeline::of(counts()).source(words()).sink(sink.clone()).open(state.clone())?;
/// assert_eq!(pipeline.run()?.items, 2);
/// assert_eq!(state.get(b"so")?.unwrap().value, b"2");
/// assert_eq!(sink.outputs().len(), 4);
/// # Ok::<(), mainstay_model::Error>(())
/// ```
pub struct Pipeline<P: Operator> {
    state: Arc<dyn KeyedState>,
    input: Merged<P::Item>,
    runner: Runner<P>,
    outlet: Outlet<P::Out>,
    /// The most items of a batch, and how many the next one has.
    batch: usize,
    size: usize,
    /// How far sources were read, in their order.
    read: Vec<u64>,
    frontier: Frontier,
    /// What a source said behind the items that were read before.
    stalled: Option<Error>,
    behind: Vec<Behind>,
    /// Whether keys may be further than the sources were read.
    states_ahead: bool,
    /// The groups whose keys are its own, of how many; all, where nothing is said.
    owned: Option<(Range<u32>, u32)>,
    /// Something failed half-way: sources and sinks may be ahead of the state.
    broken: bool,
    barriers: BTreeMap<u64, Barrier>,
}

/// Why a batch was not made, and how many of its items did not fail.
struct Failed {
    error: Error,
    done: usize,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed { error, done: 0 }
    }
}

impl<P: Operator> Pipeline<P> {
    /// Begins to put a pipeline together.
    pub fn of(operator: P) -> PipelineBuilder<P> {
        PipelineBuilder::new(operator)
    }

    /// Works on one batch and says how far that came. With an error, all items before the one that failed are in the state,
    /// and nothing of that one; the next step tries it again.
    pub fn step(&mut self) -> Result<Progress> {
        self.step_within(None)
    }

    /// The same, and no further than a place of the stream: [`Progress::ended`] says that it is reached.
    pub fn step_upto(&mut self, upto: &Place) -> Result<Progress> {
        self.step_within(Some(upto))
    }

    /// How far the sources were read.
    pub fn place(&self) -> Place {
        self.input.names().map(str::to_owned).zip(self.read.iter().copied()).collect()
    }

    fn step_within(&mut self, upto: Option<&Place>) -> Result<Progress> {
        self.ready()?;
        let mut size = self.size;
        loop {
            let failed = match self.work(size, upto) {
                Ok(progress) => {
                    self.size = self.batch.min(self.size + self.size / 8 + 1);
                    return Ok(progress);
                }
                Err(failed) => failed,
            };
            size = match failed {
                // What comes before it is kept first.
                Failed { done, .. } if done > 0 => done,
                // States are as large as they are: fewer of them fit.
                Failed { error, .. } if error.kind() == ErrorKind::TooLarge && size > 1 => {
                    self.size = size / 2;
                    self.size
                }
                Failed { error, .. } => {
                    self.broken = true;
                    return Err(error);
                }
            };
            self.recover()?;
            self.ready()?;
        }
    }

    /// Works until all sources have nothing more.
    pub fn run(&mut self) -> Result<Progress> {
        let mut whole = Progress::default();
        while !whole.ended {
            whole.add(&self.step()?);
        }
        Ok(whole)
    }

    /// Raises the watermark with no item at hand, and lets fire what is due; gives how many outputs that made. It is for
    /// sources that have nothing for a while, and for the end: `advance_to(u64::MAX)` fires all that is open.
    ///
    /// It is no item: whoever wants the same outputs again calls it at the same place of the input again.
    pub fn advance_to(&mut self, watermark_ms: u64) -> Result<u64> {
        self.ready()?;
        if self.runner.operator().event_time().is_none() {
            let name = self.runner.operator().name();
            let message = format!("operator `{name}` has no event time that could be advanced");
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let advanced = self.advance(watermark_ms);
        self.broken = advanced.is_err();
        advanced
    }

    fn advance(&mut self, watermark_ms: u64) -> Result<u64> {
        let state = Arc::clone(&self.state);
        self.runner.advance_to(watermark_ms, &Working::new(&*state), &mut self.outlet)?;
        let outputs = self.outlet.finish()?;
        self.write(Vec::new())?;
        Ok(outputs)
    }

    /// Closes all times that are over: the state forgets deleted keys, whose versions it kept to know items that come
    /// again.
    pub fn seal(&mut self) -> Result<()> {
        self.ready()?;
        self.state.seal(self.frontier.time().into())?;
        self.runner.seal(self.state.info()?.and_then(|info| info.frontier));
        Ok(())
    }

    /// The sinks that hold less than the state says they have taken. While there are any, nothing is done: restore the
    /// last checkpoint into the state, then [`recover`](Pipeline::recover).
    pub fn behind(&self) -> &[Behind] {
        &self.behind
    }

    /// The lowest time that may still come, as far as this pipeline has seen.
    pub fn frontier(&self) -> Frontier {
        self.frontier
    }

    /// How far event time has come, in milliseconds; 0 for an operator that has none.
    pub fn watermark_ms(&self) -> u64 {
        self.runner.watermark().at_ms()
    }

    /// How many items came too late since the beginning. It stands with the states.
    pub fn late(&self) -> u64 {
        self.runner.late()
    }

    /// The state.
    pub fn state(&self) -> &Arc<dyn KeyedState> {
        &self.state
    }

    /// One batch, from sources to state.
    fn work(&mut self, size: usize, upto: Option<&Place>) -> std::result::Result<Progress, Failed> {
        let mut progress = Progress::default();
        let items = self.read_batch(size, upto, &mut progress)?;
        if items.is_empty() {
            return Ok(progress);
        }
        let state = Arc::clone(&self.state);
        let mut working = Working::new(&*state);
        let own = items.iter().filter(|item| self.owns(&item.key));
        working.load(own.map(|item| &item.key[..]))?;
        for (done, item) in items.iter().enumerate() {
            let taken = match self.owns(&item.key) {
                true => self.runner.take(item, &mut working, &mut self.outlet),
                // One that is read again has no key here that would know it: its position does.
                false if item.position <= self.read[item.source] => Ok(Taken::Passed),
                false => self.runner.pass(item, &mut working, &mut self.outlet),
            };
            let taken = taken.and_then(|taken| self.check_taken(item, taken));
            progress.count(taken.map_err(|error| Failed { error, done })?);
            // What is read again is behind: the state is further.
            self.read[item.source] = self.read[item.source].max(item.position);
            self.frontier.rise(Frontier::behind(item.time));
        }
        progress.outputs = self.outlet.finish()?;
        self.write(working.into_writes()?)?;
        Ok(progress)
    }

    /// Items with their keys. What a source fails with behind some items is told once those are done.
    fn read_batch(
        &mut self,
        size: usize,
        upto: Option<&Place>,
        progress: &mut Progress,
    ) -> Result<Vec<Keyed<P::Item>>> {
        let mut items = Vec::new();
        while items.len() < size && self.stalled.is_none() {
            match self.arrive(upto).and_then(|arrived| self.keyed(arrived)) {
                Ok(Some(item)) => items.push(item),
                Ok(None) => {
                    progress.ended = true;
                    break;
                }
                Err(error) => self.stalled = Some(error),
            }
        }
        match self.stalled.take_if(|_| items.is_empty()) {
            Some(error) => Err(error),
            None => Ok(items),
        }
    }

    /// The next item, if it is not beyond a place.
    fn arrive(&mut self, upto: Option<&Place>) -> Result<Option<Arrived<P::Item>>> {
        if let Some(upto) = upto {
            let Some((source, position)) = self.input.peek()? else { return Ok(None) };
            let name = self.input.names().nth(source).unwrap_or_default();
            if upto.get(name).is_none_or(|upto| position > *upto) {
                return Ok(None);
            }
        }
        self.input.arrive()
    }

    /// Whether a key is one of those that this pipeline works on.
    fn owns(&self, key: &[u8]) -> bool {
        self.owned.as_ref().is_none_or(|(groups, of)| groups.contains(&key_group(key, *of)))
    }

    /// An item that the state has not read, and whose key was there before: its source gave that time to another item.
    /// Passing it over would lose it.
    fn check_taken(&self, item: &Keyed<P::Item>, taken: Taken) -> Result<Taken> {
        let is_new = item.position > self.read[item.source];
        if taken != Taken::Skipped || !is_new || self.states_ahead {
            return Ok(taken);
        }
        let name = self.input.names().nth(item.source).unwrap_or_default();
        let message = format!(
            "source `{name}` gives time {} behind position {}, and the state of key {} is that far already: times of a source have to rise; if the state came from a shard that had read further, open the pipeline with `states_ahead`",
            item.time,
            self.read[item.source],
            item.key.escape_ascii()
        );
        Err(Error::new(Code::InvalidVersion, message))
    }

    fn keyed(&self, arrived: Option<Arrived<P::Item>>) -> Result<Option<Keyed<P::Item>>> {
        let Some(Arrived { item, time, source, position }) = arrived else { return Ok(None) };
        let operator = self.runner.operator();
        let key = operator.key(&item);
        if (1..=STATE_KEY_LIMIT_BYTES).contains(&key.len()) {
            return Ok(Some(Keyed { key, item, time, source, position }));
        }
        let message = format!(
            "operator `{}` gives the item of time {time} a key of {} bytes: a key has 1 to {STATE_KEY_LIMIT_BYTES}",
            operator.name(),
            key.len()
        );
        Err(Error::new(Code::InvalidName, message))
    }

    /// Writes states and all positions, at once.
    fn write(&mut self, states: Vec<StateWrite>) -> Result<()> {
        let count = states.len();
        let mut writes = states;
        let operator = position::operator(self.runner.operator().name());
        writes.push(StateWrite::advance(&operator, 1));
        let read = self.input.names().zip(&self.read);
        writes.extend(read.map(|(name, at)| StateWrite::advance(&position::source(name), *at)));
        writes.extend(self.outlet.advances());
        writes.extend(self.runner.advances());
        let wrote = self.state.write(writes)?;
        if wrote.iter().take(count).all(|wrote| *wrote == Wrote::Applied) {
            return Ok(());
        }
        let message = "states were newer than this pipeline left them: somebody else writes to its space; a space has one pipeline";
        Err(Error::new(Code::Conflict, message))
    }
}

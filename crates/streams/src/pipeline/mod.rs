//! Pipeline: merges sources, runs an operator and feeds sinks, with atomic commits of state and positions.
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
//! The state always contains the positions of the sources and sinks that belong to it. Recovery therefore
//! reads the positions, seeks the sources and reopens the sinks. Outputs that a sink holds beyond its
//! position are dropped and produced again, identically.

mod barrier;
pub(crate) mod batch_states;
mod builder;
mod progress;
mod recovery;
mod runner;

pub use barrier::Barrier;
pub use builder::PipelineBuilder;
pub use progress::Progress;

use crate::operator::Operator;
use crate::position;
use crate::sink::{SinkLag, SinkSet};
use crate::source::{MergedItem, SourceMerger, SourcePositions};
use crate::time::Frontier;
use batch_states::BatchStates;
use mainstay_model::{
    Code, Error, ErrorKind, KeyedState, Result, STATE_KEY_LIMIT_BYTES, StateWrite, Wrote, key_group,
};
use runner::{ItemOutcome, KeyedItem, Runner};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Sources, an operator and sinks over one space of state, which no other pipeline may use.
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
/// // Another process continues from the state.
/// let mut pipeline = Pipeline::of(counts()).source(words()).sink(sink.clone()).open(state.clone())?;
/// assert_eq!(pipeline.run()?.items, 2);
/// assert_eq!(state.get(b"so")?.unwrap().value, b"2");
/// assert_eq!(sink.outputs().len(), 4);
/// # Ok::<(), mainstay_model::Error>(())
/// ```
pub struct Pipeline<P: Operator> {
    state: Arc<dyn KeyedState>,
    input: SourceMerger<P::Item>,
    runner: Runner<P>,
    sinks: SinkSet<P::Out>,
    /// The maximal and the current batch size, in items.
    batch: usize,
    size: usize,
    /// The positions of the sources, in order.
    positions: Vec<u64>,
    frontier: Frontier,
    /// An error of a source that occurred after the items already read.
    pending_error: Option<Error>,
    lagging_sinks: Vec<SinkLag>,
    /// True if keys may be ahead of the source positions.
    states_ahead: bool,
    /// The key groups of this shard and their total number; `None` for all.
    key_groups: Option<(Range<u32>, u32)>,
    /// True if a step failed half-way, so that sources and sinks may be ahead of the state.
    needs_recovery: bool,
    barriers: BTreeMap<u64, Barrier>,
}

/// An error in a batch, with the number of items before it that succeeded.
struct BatchError {
    error: Error,
    completed: usize,
}

impl From<Error> for BatchError {
    fn from(error: Error) -> BatchError {
        BatchError { error, completed: 0 }
    }
}

impl<P: Operator> Pipeline<P> {
    /// Starts to build a pipeline.
    pub fn of(operator: P) -> PipelineBuilder<P> {
        PipelineBuilder::new(operator)
    }

    /// Processes one batch. On an error, all items before the failed one are in the state, and the failed one
    /// has no effect. The next step retries it.
    pub fn step(&mut self) -> Result<Progress> {
        self.step_within(None)
    }

    /// Processes one batch, but not beyond a place of the stream. [`Progress::ended`] is true when the place
    /// is reached.
    pub fn step_upto(&mut self, upto: &SourcePositions) -> Result<Progress> {
        self.step_within(Some(upto))
    }

    /// The positions of the sources.
    pub fn source_positions(&self) -> SourcePositions {
        self.input.names().map(str::to_owned).zip(self.positions.iter().copied()).collect()
    }

    fn step_within(&mut self, upto: Option<&SourcePositions>) -> Result<Progress> {
        self.ensure_ready()?;
        let mut size = self.size;
        loop {
            let error = match self.process_batch(size, upto) {
                Ok(progress) => {
                    self.size = self.batch.min(self.size + self.size / 8 + 1);
                    return Ok(progress);
                }
                Err(error) => error,
            };
            size = match error {
                // First commit the items before the failed one.
                BatchError { completed, .. } if completed > 0 => completed,
                // The states are too large for one transaction, so retry with fewer items.
                BatchError { error, .. } if error.kind() == ErrorKind::TooLarge && size > 1 => {
                    self.size = size / 2;
                    self.size
                }
                BatchError { error, .. } => {
                    self.needs_recovery = true;
                    return Err(error);
                }
            };
            self.recover()?;
            self.ensure_ready()?;
        }
    }

    /// Processes batches until all sources are exhausted.
    pub fn run(&mut self) -> Result<Progress> {
        let mut total = Progress::default();
        while !total.ended {
            total.add(&self.step()?);
        }
        Ok(total)
    }

    /// Raises the watermark without an item and fires everything that is due. Returns the number of outputs.
    /// It is for idle sources, and for the end of a stream: `advance_to(u64::MAX)` fires all open windows.
    ///
    /// It is not an item: to get the same outputs again, call it again at the same place of the input.
    pub fn advance_to(&mut self, watermark_ms: u64) -> Result<u64> {
        self.ensure_ready()?;
        if self.runner.operator().event_time().is_none() {
            let name = self.runner.operator().name();
            let message = format!("operator `{name}` has no event time that could be advanced");
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let advanced = self.advance(watermark_ms);
        self.needs_recovery = advanced.is_err();
        advanced
    }

    fn advance(&mut self, watermark_ms: u64) -> Result<u64> {
        let state = Arc::clone(&self.state);
        self.runner.advance_to(watermark_ms, &BatchStates::new(&*state), &mut self.sinks)?;
        let outputs = self.sinks.finish()?;
        self.write(Vec::new())?;
        Ok(outputs)
    }

    /// Seals all completed times. The state then drops tombstones, whose versions were kept to recognize
    /// items that are read again.
    pub fn seal(&mut self) -> Result<()> {
        self.ensure_ready()?;
        self.state.seal(self.frontier.time().into())?;
        self.runner.seal(self.state.info()?.and_then(|info| info.frontier));
        Ok(())
    }

    /// The sinks that hold less than their positions in the state. While one exists, no step is possible:
    /// restore the last checkpoint into the state, then call [`recover`](Pipeline::recover).
    pub fn lagging_sinks(&self) -> &[SinkLag] {
        &self.lagging_sinks
    }

    /// The lowest logical time that may still arrive, as far as this pipeline has read.
    pub fn frontier(&self) -> Frontier {
        self.frontier
    }

    /// The watermark in milliseconds; 0 for an operator without event time.
    pub fn watermark_ms(&self) -> u64 {
        self.runner.watermark().at_ms()
    }

    /// The number of late items since the beginning. It is stored with the states.
    pub fn late(&self) -> u64 {
        self.runner.late()
    }

    /// The state.
    pub fn state(&self) -> &Arc<dyn KeyedState> {
        &self.state
    }

    /// Processes one batch from sources to state.
    fn process_batch(
        &mut self,
        size: usize,
        upto: Option<&SourcePositions>,
    ) -> std::result::Result<Progress, BatchError> {
        let mut progress = Progress::default();
        let items = self.read_batch(size, upto, &mut progress)?;
        if items.is_empty() {
            return Ok(progress);
        }
        let state = Arc::clone(&self.state);
        let mut states = BatchStates::new(&*state);
        let own_items = items.iter().filter(|item| self.owns(&item.key));
        states.load(own_items.map(|item| &item.key[..]))?;
        for (completed, item) in items.iter().enumerate() {
            let outcome = if self.owns(&item.key) {
                self.runner.process(item, &mut states, &mut self.sinks)
            } else if item.position <= self.positions[item.source] {
                // An item of another shard that is read again has no state here; its position identifies it.
                Ok(ItemOutcome::OtherShard)
            } else {
                self.runner.skip(item, &mut states, &mut self.sinks)
            };
            let outcome = outcome.and_then(|outcome| self.check_skipped(item, outcome));
            progress.count(outcome.map_err(|error| BatchError { error, completed })?);
            // An item that is read again has a lower position than the state.
            self.positions[item.source] = self.positions[item.source].max(item.position);
            self.frontier.advance_to(Frontier::after(item.time));
        }
        // Flush the sinks before the state is written: its positions must not exceed the sinks' outputs.
        progress.outputs = self.sinks.finish()?;
        self.write(states.into_writes()?)?;
        Ok(progress)
    }

    /// Reads items with their keys. A source's error after some items is returned once those are processed.
    fn read_batch(
        &mut self,
        size: usize,
        upto: Option<&SourcePositions>,
        progress: &mut Progress,
    ) -> Result<Vec<KeyedItem<P::Item>>> {
        let mut items = Vec::new();
        while items.len() < size && self.pending_error.is_none() {
            match self.next_item(upto).and_then(|merged_item| self.with_key(merged_item)) {
                Ok(Some(item)) => items.push(item),
                Ok(None) => {
                    progress.ended = true;
                    break;
                }
                Err(error) => self.pending_error = Some(error),
            }
        }
        match self.pending_error.take_if(|_| items.is_empty()) {
            Some(error) => Err(error),
            None => Ok(items),
        }
    }

    /// The next item, unless it is beyond a place.
    fn next_item(&mut self, upto: Option<&SourcePositions>) -> Result<Option<MergedItem<P::Item>>> {
        if let Some(upto) = upto {
            let Some((source, position)) = self.input.peek()? else { return Ok(None) };
            let name = self.input.names().nth(source).unwrap_or_default();
            if upto.get(name).is_none_or(|upto| position > *upto) {
                return Ok(None);
            }
        }
        self.input.next_item()
    }

    /// Returns whether a key belongs to this shard.
    fn owns(&self, key: &[u8]) -> bool {
        self.key_groups.as_ref().is_none_or(|(groups, of)| groups.contains(&key_group(key, *of)))
    }

    /// Fails if a skipped item is new by its position: its source gave the same time to two items. Skipping
    /// it would lose it.
    fn check_skipped(
        &self,
        item: &KeyedItem<P::Item>,
        outcome: ItemOutcome,
    ) -> Result<ItemOutcome> {
        let is_new = item.position > self.positions[item.source];
        if outcome != ItemOutcome::Skipped || !is_new || self.states_ahead {
            return Ok(outcome);
        }
        let name = self.input.names().nth(item.source).unwrap_or_default();
        let message = format!(
            "source `{name}` gives time {} behind position {}, and the state of key {} is that far already: times of a source have to rise; if the state came from a shard that had read further, open the pipeline with `states_ahead`",
            item.time,
            self.positions[item.source],
            item.key.escape_ascii()
        );
        Err(Error::new(Code::InvalidVersion, message))
    }

    fn with_key(
        &self,
        merged_item: Option<MergedItem<P::Item>>,
    ) -> Result<Option<KeyedItem<P::Item>>> {
        let Some(MergedItem { item, time, source, position }) = merged_item else {
            return Ok(None);
        };
        let operator = self.runner.operator();
        let key = operator.key(&item);
        if (1..=STATE_KEY_LIMIT_BYTES).contains(&key.len()) {
            return Ok(Some(KeyedItem { key, item, time, source, position }));
        }
        let message = format!(
            "operator `{}` gives the item of time {time} a key of {} bytes: a key has 1 to {STATE_KEY_LIMIT_BYTES}",
            operator.name(),
            key.len()
        );
        Err(Error::new(Code::InvalidName, message))
    }

    /// Writes states and all positions atomically.
    fn write(&mut self, states: Vec<StateWrite>) -> Result<()> {
        let count = states.len();
        let mut writes = states;
        let operator = position::operator(self.runner.operator().name());
        writes.push(StateWrite::advance(&operator, 1));
        let read = self.input.names().zip(&self.positions);
        writes.extend(read.map(|(name, at)| StateWrite::advance(&position::source(name), *at)));
        writes.extend(self.sinks.position_writes());
        writes.extend(self.runner.position_writes());
        let outcomes = self.state.write(writes)?;
        if outcomes.iter().take(count).all(|outcome| *outcome == Wrote::Applied) {
            return Ok(());
        }
        let message = "states were newer than this pipeline left them: somebody else writes to its space; a space has one pipeline";
        Err(Error::new(Code::Conflict, message))
    }
}

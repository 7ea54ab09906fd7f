//! Fan-out of outputs to all sinks, with their positions.

use crate::output::{Cause, Output};
use crate::position;
use crate::sink::{OpenStatus, Sink};
use mainstay_model::{Code, Error, Result, StateWrite, check_name};
use std::collections::BTreeMap;

/// The number of buffered outputs that are handed to the sinks at once, because firing may produce more than
/// fits into memory. If the batch fails, the sinks drop them when they are reopened.
const BUFFER_LIMIT: usize = 8_192;

/// All sinks of a pipeline.
pub(crate) struct SinkSet<O> {
    sinks: Vec<SinkState<O>>,
    buffer: Vec<Output<O>>,
    count: u64,
}

/// A sink with its position.
struct SinkState<O> {
    sink: Box<dyn Sink<O>>,
    position: u64,
}

/// A sink that holds less than its position in the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkLag {
    /// The sink's name.
    pub sink: String,
    /// The position in the state.
    pub expected: u64,
    /// The position that the sink holds.
    pub actual: u64,
}

impl<O> SinkSet<O> {
    pub(crate) fn new(sinks: Vec<Box<dyn Sink<O>>>) -> Result<SinkSet<O>> {
        let mut names = std::collections::BTreeSet::new();
        for sink in &sinks {
            check_name(&position::sink(sink.name()))?;
            if !names.insert(sink.name()) {
                let message = format!("two sinks are called `{}`: rename one", sink.name());
                return Err(Error::new(Code::InvalidArgument, message));
            }
        }
        let sinks = sinks.into_iter().map(|sink| SinkState { sink, position: 0 }).collect();
        Ok(SinkSet { sinks, buffer: Vec::new(), count: 0 })
    }

    /// Opens all sinks at their positions. Returns those that hold less.
    pub(crate) fn open(&mut self, positions: &BTreeMap<String, u64>) -> Result<Vec<SinkLag>> {
        self.buffer.clear();
        self.count = 0;
        let mut lagging = Vec::new();
        for state in &mut self.sinks {
            let name = state.sink.name().to_owned();
            let expected = positions.get(&position::sink(&name)).copied().unwrap_or(0);
            state.position = expected;
            if let OpenStatus::Lagging { position: actual } = state.sink.open(expected)? {
                lagging.push(SinkLag { sink: name, expected, actual });
            }
        }
        Ok(lagging)
    }

    /// Lets empty sinks start at these positions, because earlier outputs were shown elsewhere.
    pub(crate) fn begin_at(&mut self, positions: &BTreeMap<String, u64>) -> Result<()> {
        for state in &mut self.sinks {
            if let Some(position) = positions.get(&position::sink(state.sink.name())) {
                state.sink.begin_at(*position)?;
            }
        }
        Ok(())
    }

    /// Adds the outputs of one operator call.
    pub(crate) fn push(
        &mut self,
        operator: &str,
        key: &[u8],
        cause: Cause,
        values: Vec<O>,
    ) -> Result<()> {
        let numbered = (0..).zip(values);
        self.buffer.extend(numbered.map(|(n, value)| Output::new(operator, key, cause, n, value)));
        if self.buffer.len() >= BUFFER_LIMIT { self.flush_buffer() } else { Ok(()) }
    }

    fn flush_buffer(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        for state in &mut self.sinks {
            state.position = state.sink.write(&self.buffer)?;
        }
        self.count += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Hands over the buffered outputs and flushes the sinks. Returns the number of outputs in the batch.
    pub(crate) fn finish(&mut self) -> Result<u64> {
        self.flush_buffer()?;
        self.sinks.iter_mut().try_for_each(|state| state.sink.flush())?;
        Ok(std::mem::take(&mut self.count))
    }

    /// The positions of all sinks, to be written with the states.
    pub(crate) fn position_writes(&self) -> impl Iterator<Item = StateWrite> {
        let states = self.sinks.iter();
        states.map(|state| StateWrite::advance(&position::sink(state.sink.name()), state.position))
    }

    /// Prepares all sinks for a checkpoint. If one fails, it is aborted in all.
    pub(crate) fn prepare(&mut self, checkpoint: u64) -> Result<()> {
        let prepared = self.sinks.iter_mut().try_for_each(|state| state.sink.prepare(checkpoint));
        if prepared.is_err() {
            // The first error is returned. A sink that cannot abort keeps its staged outputs.
            let _ = self.abort(checkpoint);
        }
        prepared
    }

    /// Lets all sinks show their outputs up to their positions.
    pub(crate) fn commit(
        &mut self,
        checkpoint: u64,
        positions: &BTreeMap<String, u64>,
    ) -> Result<()> {
        for state in &mut self.sinks {
            let position = positions.get(&position::sink(state.sink.name()));
            state.sink.commit(checkpoint, position.copied().unwrap_or(0))?;
        }
        Ok(())
    }

    /// Aborts a checkpoint in all sinks. Returns the first error.
    pub(crate) fn abort(&mut self, checkpoint: u64) -> Result<()> {
        let mut aborted = Ok(());
        for state in &mut self.sinks {
            aborted = aborted.and(state.sink.abort(checkpoint));
        }
        aborted
    }
}

//! Fan-out of outputs to all sinks, with their positions.

use crate::output::{Cause, Output};
use crate::position;
use crate::sink::{Opened, Sink};
use mainstay_model::{Code, Error, Result, StateWrite, check_name};
use std::collections::BTreeMap;

/// The number of buffered outputs that are handed to the sinks at once, because firing may produce more than
/// fits into memory. If the batch fails, the sinks drop them when they are reopened.
const HANDED_ON: usize = 8_192;

/// All sinks of a pipeline.
pub(crate) struct Outlet<O> {
    sinks: Vec<Tap<O>>,
    held: Vec<Output<O>>,
    count: u64,
}

/// A sink with its position.
struct Tap<O> {
    sink: Box<dyn Sink<O>>,
    position: u64,
}

/// A sink that holds less than its position in the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The sink's name.
    pub sink: String,
    /// The position in the state.
    pub expected: u64,
    /// The position that the sink holds.
    pub held: u64,
}

impl<O> Outlet<O> {
    pub(crate) fn new(sinks: Vec<Box<dyn Sink<O>>>) -> Result<Outlet<O>> {
        let mut names = std::collections::BTreeSet::new();
        for sink in &sinks {
            check_name(&position::sink(sink.name()))?;
            if !names.insert(sink.name()) {
                let message = format!("two sinks are called `{}`: rename one", sink.name());
                return Err(Error::new(Code::InvalidArgument, message));
            }
        }
        let sinks = sinks.into_iter().map(|sink| Tap { sink, position: 0 }).collect();
        Ok(Outlet { sinks, held: Vec::new(), count: 0 })
    }

    /// Opens all sinks at their positions. Returns those that hold less.
    pub(crate) fn open(&mut self, positions: &BTreeMap<String, u64>) -> Result<Vec<Behind>> {
        self.held.clear();
        self.count = 0;
        let mut behind = Vec::new();
        for tap in &mut self.sinks {
            let name = tap.sink.name().to_owned();
            let expected = positions.get(&position::sink(&name)).copied().unwrap_or(0);
            tap.position = expected;
            if let Opened::Behind { held } = tap.sink.open(expected)? {
                behind.push(Behind { sink: name, expected, held });
            }
        }
        Ok(behind)
    }

    /// Lets empty sinks start at these positions, because earlier outputs were shown elsewhere.
    pub(crate) fn begin_at(&mut self, positions: &BTreeMap<String, u64>) -> Result<()> {
        for tap in &mut self.sinks {
            if let Some(position) = positions.get(&position::sink(tap.sink.name())) {
                tap.sink.begin_at(*position)?;
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
        self.held.extend(numbered.map(|(n, value)| Output::new(operator, key, cause, n, value)));
        if self.held.len() >= HANDED_ON { self.hand_on() } else { Ok(()) }
    }

    fn hand_on(&mut self) -> Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        for tap in &mut self.sinks {
            tap.position = tap.sink.write(&self.held)?;
        }
        self.count += self.held.len() as u64;
        self.held.clear();
        Ok(())
    }

    /// Hands over the buffered outputs and flushes the sinks. Returns the number of outputs in the batch.
    pub(crate) fn finish(&mut self) -> Result<u64> {
        self.hand_on()?;
        self.sinks.iter_mut().try_for_each(|tap| tap.sink.flush())?;
        Ok(std::mem::take(&mut self.count))
    }

    /// The positions of all sinks, to be written with the states.
    pub(crate) fn advances(&self) -> impl Iterator<Item = StateWrite> {
        let taken = self.sinks.iter();
        taken.map(|tap| StateWrite::advance(&position::sink(tap.sink.name()), tap.position))
    }

    /// Prepares all sinks for a checkpoint. If one fails, it is aborted in all.
    pub(crate) fn prepare(&mut self, checkpoint: u64) -> Result<()> {
        let prepared = self.sinks.iter_mut().try_for_each(|tap| tap.sink.prepare(checkpoint));
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
        for tap in &mut self.sinks {
            let taken = positions.get(&position::sink(tap.sink.name()));
            tap.sink.commit(checkpoint, taken.copied().unwrap_or(0))?;
        }
        Ok(())
    }

    /// Aborts a checkpoint in all sinks. Returns the first error.
    pub(crate) fn abort(&mut self, checkpoint: u64) -> Result<()> {
        let mut aborted = Ok(());
        for tap in &mut self.sinks {
            aborted = aborted.and(tap.sink.abort(checkpoint));
        }
        aborted
    }
}

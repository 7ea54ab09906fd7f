//! Builder of a pipeline.

use super::Pipeline;
use super::runner::Runner;
use crate::operator::Operator;
use crate::position;
use crate::sink::{Sink, SinkSet};
use crate::source::{Source, SourceMerger};
use crate::time::Frontier;
use mainstay_model::{Code, Error, KeyedState, Result, check_name};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The default batch size, in items.
const BATCH_DEFAULT: usize = 1_024;
/// The largest batch, in items. An item may write a few additional states, and all must fit into one
/// transaction.
const BATCH_LIMIT: usize = 10_000;

/// Builder of a pipeline. [`Pipeline`] has an example.
#[must_use = "a pipeline does nothing before it is opened"]
pub struct PipelineBuilder<P: Operator> {
    operator: P,
    input: Result<SourceMerger<P::Item>>,
    sinks: Vec<Box<dyn Sink<P::Out>>>,
    batch: usize,
    states_ahead: bool,
    key_groups: Option<(Range<u32>, u32)>,
}

impl<P: Operator> PipelineBuilder<P> {
    pub(super) fn new(operator: P) -> PipelineBuilder<P> {
        let input = Ok(SourceMerger::default());
        PipelineBuilder {
            operator,
            input,
            sinks: Vec::new(),
            batch: BATCH_DEFAULT,
            states_ahead: false,
            key_groups: None,
        }
    }

    /// Adds a source. Several sources are merged by time.
    pub fn source(mut self, source: impl Source<Item = P::Item> + 'static) -> PipelineBuilder<P> {
        self.input = self.input.and_then(|mut input| {
            check_name(&position::source(source.name()))?;
            input.add(source)?;
            Ok(input)
        });
        self
    }

    /// Adds a sink. Each sink gets all outputs.
    pub fn sink(mut self, sink: impl Sink<P::Out> + 'static) -> PipelineBuilder<P> {
        self.sinks.push(Box::new(sink));
        self
    }

    /// The sinks, for calls that must precede their opening.
    pub(crate) fn sinks(&mut self) -> &mut [Box<dyn Sink<P::Out>>] {
        &mut self.sinks
    }

    /// Sets the batch size, 1 to 10,000 items; the default is 1,024. It affects only the performance.
    pub fn batch(mut self, batch: usize) -> PipelineBuilder<P> {
        self.batch = batch;
        self
    }

    /// Allows states that are ahead of the source positions, because they came from a shard that had read
    /// further. Items that they already include are skipped. Without this setting such an item is an error,
    /// because it looks like a source that gives the same time to two items.
    pub fn states_ahead(mut self) -> PipelineBuilder<P> {
        self.states_ahead = true;
        self
    }

    /// Restricts the pipeline to the keys of some key groups. Other items are skipped. Every shard reads all
    /// items in the same order, so that all shards can stop at one place.
    pub fn shard(mut self, groups: Range<u32>, of: u32) -> PipelineBuilder<P> {
        self.key_groups = Some((groups, of));
        self
    }

    /// Opens the pipeline over a state and continues from its positions.
    pub fn open(self, state: Arc<dyn KeyedState>) -> Result<Pipeline<P>> {
        let PipelineBuilder { operator, input, sinks, batch, states_ahead, key_groups } = self;
        if !(1..=BATCH_LIMIT).contains(&batch) {
            let message = format!("a batch has 1 to {BATCH_LIMIT} items, not {batch}");
            return Err(Error::new(Code::InvalidOption, message));
        }
        check_name(&position::watermark(operator.name()))?;
        operator.check()?;
        let input = input?;
        if input.names().next().is_none() {
            return Err(Error::new(Code::InvalidOption, "a pipeline has at least one source"));
        }
        let mut pipeline = Pipeline {
            state,
            input,
            runner: Runner::new(operator),
            sinks: SinkSet::new(sinks)?,
            batch,
            size: batch,
            positions: Vec::new(),
            frontier: Frontier::default(),
            pending_error: None,
            lagging_sinks: Vec::new(),
            states_ahead,
            key_groups,
            needs_recovery: false,
            barriers: BTreeMap::new(),
        };
        pipeline.recover()?;
        Ok(pipeline)
    }
}

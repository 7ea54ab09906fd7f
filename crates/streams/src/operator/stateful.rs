//! A stateful operator made of two functions.

use super::{ApplyContext, ApplyResult, KeyFn, Operator};
use mainstay_model::{LogicalTime, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A function of a key's state, an item and its time. Returns the new state and the outputs.
type StepFn<I, S, O> =
    dyn Fn(Option<S>, &I, LogicalTime) -> Result<(Option<S>, Vec<O>)> + Send + Sync;

/// An operator with a state per key, made of two functions: one extracts an item's key, the other applies the
/// item to the key's state.
///
/// ```
/// use mainstay_streams::{Items, MemorySink, MemoryState, Pipeline, StatefulOperator};
/// use std::sync::Arc;
///
/// // Orders per customer; the third one is reported.
/// let thirds = StatefulOperator::new(
///     "thirds",
///     |order: &(&str, u32)| order.0,
///     |count: Option<u32>, order, _time| {
///         let count = count.unwrap_or(0) + 1;
///         let report = if count == 3 { vec![format!("{} ordered {} as third", order.0, order.1)] } else { vec![] };
///         Ok((Some(count), report))
///     },
/// );
/// let sink = MemorySink::new("told");
/// let orders = [("ada", 7), ("bob", 1), ("ada", 7), ("ada", 9)];
/// let mut pipeline = Pipeline::of(thirds)
///     .source(Items::new("orders", orders))
///     .sink(sink.clone())
///     .open(Arc::new(MemoryState::new()))?;
/// pipeline.run()?;
/// assert_eq!(sink.outputs()[0].value, "ada ordered 9 as third");
/// # Ok::<(), mainstay_model::Error>(())
/// ```
pub struct StatefulOperator<I, S, O> {
    name: String,
    key: Box<KeyFn<I>>,
    step: Box<StepFn<I, S, O>>,
}

impl<I, S, O> StatefulOperator<I, S, O> {
    /// Creates an operator. `step` returns the key's new state; `None` deletes the key. Both functions must
    /// depend only on their arguments, because the same item must always give the same outputs with the same
    /// ids.
    pub fn new<K: Into<Vec<u8>>>(
        name: &str,
        key: impl Fn(&I) -> K + Send + Sync + 'static,
        step: impl Fn(Option<S>, &I, LogicalTime) -> Result<(Option<S>, Vec<O>)> + Send + Sync + 'static,
    ) -> StatefulOperator<I, S, O> {
        let key = Box::new(move |item: &I| key(item).into());
        StatefulOperator { name: name.to_owned(), key, step: Box::new(step) }
    }
}

impl<I, S: Serialize + DeserializeOwned, O> Operator for StatefulOperator<I, S, O> {
    type Item = I;
    type State = S;
    type Out = O;

    fn name(&self) -> &str {
        &self.name
    }

    fn key(&self, item: &I) -> Vec<u8> {
        (self.key)(item)
    }

    fn apply(
        &self,
        state: Option<S>,
        item: &I,
        context: ApplyContext,
    ) -> Result<ApplyResult<S, O>> {
        let (state, outputs) = (self.step)(state, item, context.time)?;
        Ok(ApplyResult { state, outputs, late: false })
    }
}

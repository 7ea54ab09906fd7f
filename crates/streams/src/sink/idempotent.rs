//! Idempotent sink: a materialized view of the newest output per key in keyed state.

use super::{OpenStatus, ShardId, Sink};
use crate::output::Output;
use crate::position;
use mainstay_model::{Code, Error, KeyedState, Result, StateWrite};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

type OutputKeyFn<O> = dyn Fn(&Output<O>) -> Vec<u8> + Send + Sync;

/// The number of writes per batch.
const BATCH_WRITES: usize = 1_024;

/// Writes outputs as JSON into a space, by key and version. A repeated output is not newer and changes
/// nothing. The newest output of each key remains. Outputs are visible at once, because only the newest per
/// key counts and none has to wait for a checkpoint.
///
/// The space must hold only outputs, and the states of a pipeline must be in another space. It stores a
/// position for each shard, so shards may share it.
///
/// ```
/// use mainstay_model::KeyedState;
/// use mainstay_streams::{IdempotentSink, Items, MemoryState, Pipeline, StatefulOperator};
/// use std::sync::Arc;
/// let totals = StatefulOperator::new("totals", |word: &&str| *word, |count: Option<u32>, _, _| {
///     let count = count.unwrap_or(0) + 1;
///     Ok((Some(count), vec![count]))
/// });
/// let view = Arc::new(MemoryState::new());
/// let mut pipeline = Pipeline::of(totals)
///     .source(Items::new("words", ["a", "b", "a"]))
///     .sink(IdempotentSink::new("view", view.clone()))
///     .open(Arc::new(MemoryState::new()))?;
/// pipeline.run()?;
/// assert_eq!(view.get(b"a")?.unwrap().value, b"2");
/// # Ok::<(), mainstay_model::Error>(())
/// ```
pub struct IdempotentSink<O> {
    name: String,
    space: Arc<dyn KeyedState>,
    key: Box<OutputKeyFn<O>>,
    shard_id: ShardId,
    position: u64,
}

impl<O> IdempotentSink<O> {
    /// Stores each output under its own key. Several outputs of one key and version are refused: see
    /// [`keyed_by`](IdempotentSink::keyed_by).
    pub fn new(name: &str, space: Arc<dyn KeyedState>) -> IdempotentSink<O> {
        IdempotentSink::keyed_by(name, space, |output| output.key.clone())
    }

    /// Stores each output under a key derived from it.
    pub fn keyed_by(
        name: &str,
        space: Arc<dyn KeyedState>,
        key: impl Fn(&Output<O>) -> Vec<u8> + Send + Sync + 'static,
    ) -> IdempotentSink<O> {
        let name = name.to_owned();
        let key = Box::new(key);
        let shard_id = ShardId::default();
        IdempotentSink { name, space, key, shard_id, position: 0 }
    }

    /// The name of the sink's position in the space.
    fn position_name(&self) -> String {
        position::shard_sink(&self.name, self.shard_id)
    }

    fn duplicate_key_error(&self, key: &[u8], output: &Output<O>) -> Error {
        let message = format!(
            "sink `{}` was given two outputs of version {} for key {}, of which only one can stay: give each a key of its own, with `IdempotentSink::keyed_by`",
            self.name,
            output.version,
            key.escape_ascii()
        );
        Error::new(Code::InvalidArgument, message)
    }
}

impl<O: Serialize> IdempotentSink<O> {
    /// The newest output of each key. Older ones would never be visible.
    fn latest<'o>(&self, outputs: &'o [Output<O>]) -> Result<BTreeMap<Vec<u8>, &'o Output<O>>> {
        let mut latest: BTreeMap<Vec<u8>, &Output<O>> = BTreeMap::new();
        for output in outputs {
            let key = (self.key)(output);
            match latest.get(&key).map(|existing| existing.version.cmp(&output.version)) {
                Some(Ordering::Equal) => return Err(self.duplicate_key_error(&key, output)),
                Some(Ordering::Greater) => {}
                Some(Ordering::Less) | None => {
                    latest.insert(key, output);
                }
            }
        }
        Ok(latest)
    }

    fn encode_write(&self, key: Vec<u8>, output: &Output<O>) -> Result<StateWrite> {
        let value = serde_json::to_vec(&output.value).map_err(|error| {
            let message = format!("sink `{}`: {} is no JSON: {error}", self.name, output.id);
            Error::new(Code::InvalidValue, message)
        })?;
        Ok(StateWrite::put(key, value, output.version))
    }
}

impl<O: Serialize> Sink<O> for IdempotentSink<O> {
    fn name(&self) -> &str {
        &self.name
    }

    fn assign(&mut self, shard_id: ShardId) -> Result<ShardId> {
        self.shard_id = shard_id;
        Ok(shard_id)
    }

    fn open(&mut self, position: u64) -> Result<OpenStatus> {
        let stored = self.space.positions()?.get(&self.position_name()).copied().unwrap_or(0);
        self.position = position;
        // Outputs beyond the position will be written again as no-ops.
        Ok(if stored < position {
            OpenStatus::Lagging { position: stored }
        } else {
            OpenStatus::Ready
        })
    }

    fn write(&mut self, outputs: &[Output<O>]) -> Result<u64> {
        let position = self.position + outputs.len() as u64;
        let latest = self.latest(outputs)?.into_iter();
        let writes = latest.map(|(key, output)| self.encode_write(key, output));
        let mut writes = writes.collect::<Result<Vec<_>>>()?;
        // The position comes last, so the space always holds all outputs up to its position.
        writes.push(StateWrite::advance(&self.position_name(), position));
        for batch in writes.chunks(BATCH_WRITES) {
            self.space.write(batch.to_vec())?;
        }
        self.position = position;
        Ok(position)
    }

    fn prepare(&mut self, _checkpoint: u64) -> Result<()> {
        self.space.sync()
    }

    fn commit(&mut self, _checkpoint: u64, _position: u64) -> Result<()> {
        Ok(())
    }

    fn abort(&mut self, _checkpoint: u64) -> Result<()> {
        Ok(())
    }
}

//! In-memory sink.

use super::{OpenStatus, Sink};
use crate::output::Output;
use mainstay_model::{Code, Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// Stores outputs in memory, for tests and inspection. A position is the number of outputs. Clones share the
/// outputs.
///
/// ```
/// use mainstay_model::LogicalTime;
/// use mainstay_streams::{Cause, MemorySink, OpenStatus, Output, Sink};
/// let mut sink = MemorySink::new("out");
/// sink.open(0)?;
/// sink.write(&[Output::new("o", b"k", Cause::Item(LogicalTime::new(0, 1)), 0, 'x')])?;
/// assert_eq!((sink.outputs().len(), sink.committed().len()), (1, 0));
/// sink.prepare(1)?;
/// sink.commit(1, 1)?;
/// assert_eq!(sink.committed().len(), 1);
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemorySink<O> {
    name: String,
    log: Arc<Mutex<OutputLog<O>>>,
    position: u64,
}

#[derive(Debug)]
struct OutputLog<O> {
    outputs: Vec<Output<O>>,
    committed: usize,
}

impl<O: Clone> MemorySink<O> {
    /// An empty sink.
    pub fn new(name: &str) -> MemorySink<O> {
        let log = OutputLog { outputs: Vec::new(), committed: 0 };
        MemorySink { name: name.to_owned(), log: Arc::new(Mutex::new(log)), position: 0 }
    }

    /// All outputs, including uncommitted ones.
    pub fn outputs(&self) -> Vec<Output<O>> {
        self.log.lock().outputs.clone()
    }

    /// The committed outputs.
    pub fn committed(&self) -> Vec<Output<O>> {
        let log = self.log.lock();
        log.outputs[..log.committed].to_vec()
    }

    /// Drops the uncommitted outputs, as a power failure does.
    pub fn drop_uncommitted(&self) {
        let mut log = self.log.lock();
        let committed = log.committed;
        log.outputs.truncate(committed);
    }
}

impl<O: Clone + Send> Sink<O> for MemorySink<O> {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&mut self, position: u64) -> Result<OpenStatus> {
        let mut log = self.log.lock();
        let count = log.outputs.len() as u64;
        if count < position {
            return Ok(OpenStatus::Lagging { position: count });
        }
        let keep = log.committed.max(position as usize);
        log.outputs.truncate(keep);
        self.position = position;
        Ok(OpenStatus::Ready)
    }

    fn write(&mut self, outputs: &[Output<O>]) -> Result<u64> {
        let mut log = self.log.lock();
        // Outputs that readers have seen come again, identically.
        let replayed = log.outputs.len().saturating_sub(self.position as usize).min(outputs.len());
        for (n, output) in outputs[..replayed].iter().enumerate() {
            let previous = &log.outputs[self.position as usize + n];
            if previous.id != output.id {
                return Err(output_mismatch(&self.name, previous, output));
            }
        }
        log.outputs.extend_from_slice(&outputs[replayed..]);
        self.position += outputs.len() as u64;
        Ok(self.position)
    }

    fn prepare(&mut self, _checkpoint: u64) -> Result<()> {
        Ok(())
    }

    fn commit(&mut self, _checkpoint: u64, position: u64) -> Result<()> {
        let mut log = self.log.lock();
        if log.outputs.len() < position as usize {
            let message = format!(
                "sink `{}` holds {} outputs, and {position} were to be committed",
                self.name,
                log.outputs.len()
            );
            return Err(Error::new(Code::CorruptData, message));
        }
        log.committed = log.committed.max(position as usize);
        Ok(())
    }

    fn abort(&mut self, _checkpoint: u64) -> Result<()> {
        Ok(())
    }
}

#[cold]
fn output_mismatch<O>(sink: &str, previous: &Output<O>, output: &Output<O>) -> Error {
    let message = format!(
        "sink `{sink}` was given output {} where it has committed {}: the operator is not the one that made it, or gives different outputs for the same input",
        output.id, previous.id
    );
    Error::new(Code::CorruptData, message)
}

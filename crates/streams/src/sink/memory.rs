//! In-memory sink.

use super::{Opened, Sink};
use crate::output::Output;
use mainstay_model::{Code, Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// Stores outputs in memory, for tests and inspection. A position is the number of outputs. Clones share the
/// outputs.
///
/// ```
/// use mainstay_model::LogicalTime;
/// use mainstay_streams::{Cause, MemorySink, Opened, Output, Sink};
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
    shelf: Arc<Mutex<Shelf<O>>>,
    position: u64,
}

#[derive(Debug)]
struct Shelf<O> {
    outputs: Vec<Output<O>>,
    committed: usize,
}

impl<O: Clone> MemorySink<O> {
    /// An empty sink.
    pub fn new(name: &str) -> MemorySink<O> {
        let shelf = Shelf { outputs: Vec::new(), committed: 0 };
        MemorySink { name: name.to_owned(), shelf: Arc::new(Mutex::new(shelf)), position: 0 }
    }

    /// All outputs, including uncommitted ones.
    pub fn outputs(&self) -> Vec<Output<O>> {
        self.shelf.lock().outputs.clone()
    }

    /// The committed outputs.
    pub fn committed(&self) -> Vec<Output<O>> {
        let shelf = self.shelf.lock();
        shelf.outputs[..shelf.committed].to_vec()
    }

    /// Drops the uncommitted outputs, as a power failure does.
    pub fn lose(&self) {
        let mut shelf = self.shelf.lock();
        let committed = shelf.committed;
        shelf.outputs.truncate(committed);
    }
}

impl<O: Clone + Send> Sink<O> for MemorySink<O> {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&mut self, position: u64) -> Result<Opened> {
        let mut shelf = self.shelf.lock();
        let held = shelf.outputs.len() as u64;
        if held < position {
            return Ok(Opened::Behind { held });
        }
        let keep = shelf.committed.max(position as usize);
        shelf.outputs.truncate(keep);
        self.position = position;
        Ok(Opened::Ready)
    }

    fn write(&mut self, outputs: &[Output<O>]) -> Result<u64> {
        let mut shelf = self.shelf.lock();
        // Outputs that readers have seen come again, identically.
        let seen = shelf.outputs.len().saturating_sub(self.position as usize).min(outputs.len());
        for (n, output) in outputs[..seen].iter().enumerate() {
            let before = &shelf.outputs[self.position as usize + n];
            if before.id != output.id {
                return Err(differs(&self.name, before, output));
            }
        }
        shelf.outputs.extend_from_slice(&outputs[seen..]);
        self.position += outputs.len() as u64;
        Ok(self.position)
    }

    fn prepare(&mut self, _checkpoint: u64) -> Result<()> {
        Ok(())
    }

    fn commit(&mut self, _checkpoint: u64, position: u64) -> Result<()> {
        let mut shelf = self.shelf.lock();
        if shelf.outputs.len() < position as usize {
            let message = format!(
                "sink `{}` holds {} outputs, and {position} were to be committed",
                self.name,
                shelf.outputs.len()
            );
            return Err(Error::new(Code::CorruptData, message));
        }
        shelf.committed = shelf.committed.max(position as usize);
        Ok(())
    }

    fn abort(&mut self, _checkpoint: u64) -> Result<()> {
        Ok(())
    }
}

#[cold]
fn differs<O>(sink: &str, before: &Output<O>, output: &Output<O>) -> Error {
    let message = format!(
        "sink `{sink}` was given output {} where it has committed {}: the operator is not the one that made it, or gives different outputs for the same input",
        output.id, before.id
    );
    Error::new(Code::CorruptData, message)
}

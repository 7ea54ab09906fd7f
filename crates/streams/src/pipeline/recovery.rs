//! Recovery of a pipeline from the positions in its state.
//!
//! ```text
//!   positions of the state --+--> sources: seek
//!                            +--> operator: watermark, due times
//!                            '--> sinks: outputs beyond are dropped --holds less: the state goes back to its checkpoint
//! ```

use super::Pipeline;
use crate::operator::Operator;
use crate::position;
use crate::sink::SinkLag;
use crate::time::Frontier;
use mainstay_model::{Code, Error, Result, SpaceOptions, VersionKind};
use std::collections::BTreeMap;

impl<P: Operator> Pipeline<P> {
    /// Continues from the state, as after a crash. Call it after the state was restored from a checkpoint. A
    /// step after a failed one calls it automatically.
    pub fn recover(&mut self) -> Result<()> {
        self.needs_recovery = true;
        self.declare()?;
        let positions = self.state.positions()?;
        self.check_owner(&positions)?;
        let at = |name: &str| positions.get(&position::source(name)).copied().unwrap_or(0);
        self.positions = self.input.names().map(at).collect();
        self.input.seek(at)?;
        self.pending_error = None;
        self.frontier = Frontier::default();
        self.runner.recover(&*self.state, &positions)?;
        self.lagging_sinks = self.sinks.open(&positions)?;
        self.barriers.retain(|_, barrier| barrier.is_included_in(&positions));
        self.needs_recovery = false;
        Ok(())
    }

    /// Lets empty sinks start at the positions of a checkpoint, because earlier outputs were shown elsewhere.
    pub(crate) fn begin_sinks_at(&mut self, positions: &BTreeMap<String, u64>) -> Result<()> {
        self.sinks.begin_at(positions)?;
        self.recover()
    }

    /// Recovers after a failure, and fails if a sink holds less than its position.
    pub(super) fn ensure_ready(&mut self) -> Result<()> {
        if self.needs_recovery {
            self.recover()?;
        }
        let Some(SinkLag { sink, expected, actual }) = self.lagging_sinks.first() else {
            return Ok(());
        };
        let message = format!(
            "sink `{sink}` holds {actual} of the {expected} that the state says it has taken: restore the last checkpoint, then recover the pipeline"
        );
        Err(Error::new(Code::Conflict, message))
    }

    /// Checks and declares the state's space for a pipeline.
    fn declare(&self) -> Result<()> {
        let capabilities = self.state.capabilities();
        if !capabilities.atomic {
            let message = format!(
                "a pipeline writes states and positions at once, and a store of kind `{}` cannot",
                capabilities.store
            );
            return Err(Error::new(Code::Unsupported, message));
        }
        let options = match self.state.info()? {
            Some(info) => info.options,
            None => SpaceOptions::default(),
        };
        if options.ordered || options.merged {
            let message = "a pipeline applies items in order by itself: declare its space as one where the newest wins";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        self.state.declare(options.versions(VersionKind::Time)).map(|_| ())
    }

    /// Rejects the state of another pipeline.
    fn check_owner(&self, positions: &BTreeMap<String, u64>) -> Result<()> {
        let names_after = |prefix: &'static str| {
            positions.keys().filter_map(move |name| name.strip_prefix(prefix))
        };
        let name = self.runner.operator().name();
        if let Some(other) = names_after(position::OPERATORS).find(|other| *other != name) {
            let message = format!(
                "the state is that of operator `{other}`, not of `{name}`: give each operator a space of its own"
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let previous: Vec<_> = names_after(position::SOURCES).collect();
        let current: Vec<_> = self.input.names().collect();
        if previous.is_empty() || previous == current {
            return Ok(());
        }
        let message = format!(
            "the state was made from sources {previous:?}, not from {current:?}: times follow from all of them, so give it the same"
        );
        Err(Error::new(Code::InvalidArgument, message))
    }
}

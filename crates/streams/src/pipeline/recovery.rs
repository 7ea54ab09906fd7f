//! Recovery of a pipeline from the positions in its state.
//!
//! ```text
//!   positions of the state --+--> sources: seek
//!                            +--> operator: watermark, due times
//!                            '--> sinks: outputs beyond are dropped --holds less: the state goes back to its checkpoint
//! ```

use super::Pipeline;
use crate::frontier::Frontier;
use crate::operator::Operator;
use crate::outlet::Behind;
use crate::position;
use mainstay_model::{Code, Error, Result, SpaceOptions, VersionKind};
use std::collections::BTreeMap;

impl<P: Operator> Pipeline<P> {
    /// Continues from the state, as after a crash. Call it after the state was restored from a checkpoint. A
    /// step after a failed one calls it automatically.
    pub fn recover(&mut self) -> Result<()> {
        self.broken = true;
        self.declare()?;
        let positions = self.state.positions()?;
        self.check(&positions)?;
        let at = |name: &str| positions.get(&position::source(name)).copied().unwrap_or(0);
        self.read = self.input.names().map(at).collect();
        self.input.seek(at)?;
        self.stalled = None;
        self.frontier = Frontier::default();
        self.runner.recover(&*self.state, &positions)?;
        self.behind = self.outlet.open(&positions)?;
        self.barriers.retain(|_, barrier| barrier.is_within(&positions));
        self.broken = false;
        Ok(())
    }

    /// Lets empty sinks start at the positions of a checkpoint, because earlier outputs were shown elsewhere.
    pub(crate) fn begin_sinks_at(&mut self, positions: &BTreeMap<String, u64>) -> Result<()> {
        self.outlet.begin_at(positions)?;
        self.recover()
    }

    /// Recovers after a failure, and fails if a sink holds less than its position.
    pub(super) fn ready(&mut self) -> Result<()> {
        if self.broken {
            self.recover()?;
        }
        let Some(Behind { sink, expected, held }) = self.behind.first() else { return Ok(()) };
        let message = format!(
            "sink `{sink}` holds {held} of the {expected} that the state says it has taken: restore the last checkpoint, then recover the pipeline"
        );
        Err(Error::new(Code::Conflict, message))
    }

    /// Checks and declares the state's space for a pipeline.
    fn declare(&self) -> Result<()> {
        let can = self.state.capabilities();
        if !can.atomic {
            let message = format!(
                "a pipeline writes states and positions at once, and a store of kind `{}` cannot",
                can.store
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
    fn check(&self, positions: &BTreeMap<String, u64>) -> Result<()> {
        let named = |beginning: &'static str| {
            positions.keys().filter_map(move |name| name.strip_prefix(beginning))
        };
        let name = self.runner.operator().name();
        if let Some(other) = named(position::OPERATORS).find(|other| *other != name) {
            let message = format!(
                "the state is that of operator `{other}`, not of `{name}`: give each operator a space of its own"
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let before: Vec<_> = named(position::SOURCES).collect();
        let now: Vec<_> = self.input.names().collect();
        if before.is_empty() || before == now {
            return Ok(());
        }
        let message = format!(
            "the state was made from sources {before:?}, not from {now:?}: times follow from all of them, so give it the same"
        );
        Err(Error::new(Code::InvalidArgument, message))
    }
}

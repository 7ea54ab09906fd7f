//! How far a pipeline came.

use crate::runner::Taken;

/// How far a pipeline came, in one step or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many items were applied.
    pub items: u64,
    /// How many had been applied before, and were passed over.
    pub skipped: u64,
    /// How many have keys of other shards, and were passed over.
    pub passed: u64,
    /// How many came too late, and were dropped.
    pub late: u64,
    /// How many outputs were handed to the sinks.
    pub outputs: u64,
    /// Whether the sources had nothing more.
    pub ended: bool,
}

impl Progress {
    /// Adds a further step.
    pub fn add(&mut self, further: &Progress) {
        self.items += further.items;
        self.skipped += further.skipped;
        self.passed += further.passed;
        self.late += further.late;
        self.outputs += further.outputs;
        self.ended = further.ended;
    }

    pub(crate) fn count(&mut self, taken: Taken) {
        match taken {
            Taken::Applied => self.items += 1,
            Taken::Late => self.late += 1,
            Taken::Skipped => self.skipped += 1,
            Taken::Passed => self.passed += 1,
        }
    }
}

//! Progress counters of a pipeline.

use crate::runner::Taken;

/// The progress of one or several steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The number of items applied.
    pub items: u64,
    /// The number of items skipped because they were applied before.
    pub skipped: u64,
    /// The number of items skipped because their keys belong to other shards.
    pub passed: u64,
    /// The number of late items, which were dropped.
    pub late: u64,
    /// The number of outputs handed to the sinks.
    pub outputs: u64,
    /// True if the sources have no more items.
    pub ended: bool,
}

impl Progress {
    /// Adds the progress of another step.
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

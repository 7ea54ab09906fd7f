//! Progress counters of a pipeline.

use super::runner::ItemOutcome;

/// The progress of one or several steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The number of items applied.
    pub items: u64,
    /// The number of items skipped because they were applied before.
    pub skipped: u64,
    /// The number of items skipped because their keys belong to other shards.
    pub other_shards: u64,
    /// The number of late items, which were dropped.
    pub late: u64,
    /// The number of outputs handed to the sinks.
    pub outputs: u64,
    /// True if the sources have no more items.
    pub ended: bool,
}

impl Progress {
    /// Adds the progress of another step.
    pub fn add(&mut self, other: &Progress) {
        self.items += other.items;
        self.skipped += other.skipped;
        self.other_shards += other.other_shards;
        self.late += other.late;
        self.outputs += other.outputs;
        self.ended = other.ended;
    }

    pub(crate) fn count(&mut self, outcome: ItemOutcome) {
        match outcome {
            ItemOutcome::Applied => self.items += 1,
            ItemOutcome::Late => self.late += 1,
            ItemOutcome::Skipped => self.skipped += 1,
            ItemOutcome::OtherShard => self.other_shards += 1,
        }
    }
}

//! Capability requirements of the run store cases.
//!
//! A store that lacks a required capability skips the case.

use crate::run_stand::{RunStand, RunWorld};
use mainstay_model::{Listings, RunCapabilities};

/// A capability that a case can require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunNeed {
    /// Sequences without gaps.
    Contiguous,
    /// Events become visible in sequence order: no event appears after one with a higher sequence.
    Monotone,
    /// Batches of events that append in one step.
    Batches,
    /// Conditional appends on the expected last sequence.
    ExpectedSeq,
    /// Creation of runs with metadata and first events.
    Bootstrap,
    /// Listing runs by name.
    Listing,
    /// Listing runs with more filters than the name.
    ListingFilters,
    /// Deletion of runs.
    Deletion,
    /// Restoring events from an archive.
    Restoring,
    /// Stored snapshots that are never behind the log.
    CurrentSnapshots,
    /// Tails that wake up when an event is appended.
    TailWakes,
    /// A manual clock, which moves only when the test advances it.
    HandClock,
}

impl RunNeed {
    /// Returns whether the store in this world has the capability.
    pub fn is_met(self, world: &dyn RunWorld, can: &RunCapabilities) -> bool {
        match self {
            RunNeed::Contiguous => can.contiguous,
            RunNeed::Monotone => can.monotone,
            RunNeed::Batches => can.batches,
            RunNeed::ExpectedSeq => can.expected_seq,
            RunNeed::Bootstrap => can.bootstrap,
            RunNeed::Listing => can.listing >= Listings::Names,
            RunNeed::ListingFilters => can.listing >= Listings::Filters,
            RunNeed::Deletion => can.deletion,
            RunNeed::Restoring => can.restoring,
            RunNeed::CurrentSnapshots => can.current_snapshots,
            RunNeed::TailWakes => can.tail_wakes,
            RunNeed::HandClock => world.has_clock_in_hand(),
        }
    }
}

/// A conformance case for run stores.
#[derive(Clone, Copy)]
pub struct RunCase {
    /// File and function, as `file::case`.
    pub name: &'static str,
    /// Capabilities that the store must have.
    pub needs: &'static [RunNeed],
    /// A capability that the store must not have.
    pub lacks: Option<RunNeed>,
    /// The test function, which panics on failure.
    pub body: fn(&RunStand<'_>),
}

impl RunCase {
    /// Returns the reason why the store skips this case; `None` if the case runs.
    pub fn excuse(&self, world: &dyn RunWorld) -> Option<String> {
        let can = world.store().capabilities();
        let store = can.store;
        let missing = self.needs.iter().find(|need| !need.is_met(world, &can));
        let missing = missing.map(|need| format!("`{store}` lacks {need:?}"));
        let has = self.lacks.filter(|lack| lack.is_met(world, &can));
        missing.or_else(|| has.map(|has| format!("`{store}` has {has:?}")))
    }

    /// Runs the case. If the store skips it, prints and returns the reason.
    pub fn run(&self, world: &dyn RunWorld) -> Option<String> {
        let excuse = self.excuse(world);
        match &excuse {
            Some(why) => println!("skipped {}: {why}", self.name),
            None => (self.body)(&RunStand::of(world)),
        }
        excuse
    }
}

/// Returns the cases that a store skips, with the reasons.
pub fn skipped(world: &dyn RunWorld) -> Vec<(&'static str, String)> {
    let cases = crate::run_store_cases::ALL.iter();
    cases.filter_map(|case| case.excuse(world).map(|why| (case.name, why))).collect()
}

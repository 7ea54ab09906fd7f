//! What a case of stores of runs needs, and which cases a store is excused from.

use crate::run_stand::{RunStand, RunWorld};
use mainstay_model::{Listings, RunCapabilities};

/// What a case can need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunNeed {
    /// Sequences without gaps.
    Contiguous,
    /// No event that appears behind later ones.
    Monotone,
    /// Several events in one step.
    Batches,
    /// Appends on the last sequence.
    ExpectedSeq,
    /// Runs that are made with metadata and events.
    Bootstrap,
    /// Lists by names.
    Listing,
    /// Lists by more than names.
    ListingFilters,
    /// Runs that are deleted.
    Deletion,
    /// Events as archived.
    Restoring,
    /// Kept snapshots that are never behind.
    CurrentSnapshots,
    /// Waiting for an event.
    TailWakes,
    /// A clock that stands still unless time is let go by.
    HandClock,
}

impl RunNeed {
    /// Whether a store in its world has it.
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

/// A case that stores of runs have to pass.
#[derive(Clone, Copy)]
pub struct RunCase {
    /// Its file and its name.
    pub name: &'static str,
    /// What a store must have for it.
    pub needs: &'static [RunNeed],
    /// What a store must lack for it.
    pub lacks: Option<RunNeed>,
    /// The case itself; it fails by panicking.
    pub body: fn(&RunStand<'_>),
}

impl RunCase {
    /// Why a store is excused from it, if it is.
    pub fn excuse(&self, world: &dyn RunWorld) -> Option<String> {
        let can = world.store().capabilities();
        let store = can.store;
        let missing = self.needs.iter().find(|need| !need.is_met(world, &can));
        let missing = missing.map(|need| format!("`{store}` lacks {need:?}"));
        let has = self.lacks.filter(|lack| lack.is_met(world, &can));
        missing.or_else(|| has.map(|has| format!("`{store}` has {has:?}")))
    }

    /// Runs it, unless the store is excused: then it says why.
    pub fn run(&self, world: &dyn RunWorld) -> Option<String> {
        let excuse = self.excuse(world);
        match &excuse {
            Some(why) => println!("skipped {}: {why}", self.name),
            None => (self.body)(&RunStand::of(world)),
        }
        excuse
    }
}

/// The cases that a store is excused from, with the reason.
pub fn skipped(world: &dyn RunWorld) -> Vec<(&'static str, String)> {
    let cases = crate::run_store_cases::ALL.iter();
    cases.filter_map(|case| case.excuse(world).map(|why| (case.name, why))).collect()
}

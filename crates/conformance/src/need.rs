//! Capability requirements of the record store cases.
//!
//! A store that lacks a required capability skips the case.

use crate::stand::{Stand, StoreWorld};
use mainstay_model::{Capabilities, Conditions, Counters, Lifetimes, Scans};

/// A capability that a case can require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A time to live per record.
    Ttl,
    /// One time to live for all records of the store.
    StoreTtl,
    /// Conditions on the counter and on existence.
    CounterConditions,
    /// Conditions on fields.
    FieldConditions,
    /// Several conditions in one write.
    SeveralConditions,
    /// Fencing conditions.
    Fences,
    /// Fields that are set to an increasing revision.
    Revisions,
    /// Fields that are set to the store's current time.
    Times,
    /// Fields that are incremented.
    Sums,
    /// Counters that survive deletion and expiry.
    LastingCounters,
    /// Scan pages that all read the same snapshot.
    Snapshots,
    /// Old versions of records.
    History,
    /// Scan and write in one atomic step.
    Picks,
    /// Declared indexes.
    Indexes,
    /// A manual clock, which moves only when the test advances it.
    HandClock,
}

impl Need {
    /// Returns whether the store in this world has the capability.
    pub fn is_met(self, world: &dyn StoreWorld, can: &Capabilities) -> bool {
        match self {
            Need::Ttl => matches!(can.lifetimes, Lifetimes::PerRecord { .. }),
            Need::StoreTtl => matches!(can.lifetimes, Lifetimes::PerStore { .. }),
            Need::CounterConditions => can.conditions >= Conditions::WholeRecord,
            Need::FieldConditions => can.conditions >= Conditions::Fields,
            Need::SeveralConditions => can.several_conditions,
            Need::Fences => can.fences,
            Need::Revisions => can.revisions,
            Need::Times => can.times,
            Need::Sums => can.sums,
            Need::LastingCounters => can.counters == Counters::Lasting,
            Need::Snapshots => can.scans == Scans::Snapshot,
            Need::History => can.history,
            Need::Picks => can.picks,
            Need::Indexes => can.indexes,
            Need::HandClock => world.has_clock_in_hand(),
        }
    }
}

/// A conformance case for record stores.
#[derive(Clone, Copy)]
pub struct StoreCase {
    /// File and function, as `file::case`.
    pub name: &'static str,
    /// Capabilities that the store must have.
    pub needs: &'static [Need],
    /// A capability that the store must not have.
    pub lacks: Option<Need>,
    /// The test function, which panics on failure.
    pub body: fn(&Stand<'_>),
}

impl StoreCase {
    /// Returns the reason why the store skips this case; `None` if the case runs.
    pub fn excuse(&self, world: &dyn StoreWorld) -> Option<String> {
        let can = world.store().capabilities();
        let store = can.store;
        let missing = self.needs.iter().find(|need| !need.is_met(world, &can));
        let missing = missing.map(|need| format!("`{store}` lacks {need:?}"));
        let has = self.lacks.filter(|lack| lack.is_met(world, &can));
        missing.or_else(|| has.map(|has| format!("`{store}` has {has:?}")))
    }

    /// Runs the case. If the store skips it, prints and returns the reason.
    pub fn run(&self, world: &dyn StoreWorld) -> Option<String> {
        let excuse = self.excuse(world);
        match &excuse {
            Some(why) => println!("skipped {}: {why}", self.name),
            None => (self.body)(&Stand::of(world)),
        }
        excuse
    }
}

/// Returns the cases that a store skips, with the reasons.
pub fn skipped(world: &dyn StoreWorld) -> Vec<(&'static str, String)> {
    let cases = crate::store_cases::ALL.iter();
    cases.filter_map(|case| case.excuse(world).map(|why| (case.name, why))).collect()
}

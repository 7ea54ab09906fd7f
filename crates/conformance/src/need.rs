//! What a case of stores needs, and which cases a store is excused from.

use crate::stand::{Stand, StoreWorld};
use mainstay_model::{Capabilities, Conditions, Counters, Lifetimes, Scans};

/// What a case can need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Records with a time to live of their own.
    Ttl,
    /// Records that all live equally long.
    StoreTtl,
    /// Conditions on the counter and on existence.
    CounterConditions,
    /// Conditions on fields.
    FieldConditions,
    /// Several conditions in one write.
    SeveralConditions,
    /// Conditions that are fences.
    Fences,
    /// Fields that become a number that only rises.
    Revisions,
    /// Fields that become the store's own time.
    Times,
    /// Fields that are added to.
    Sums,
    /// Counters that survive deletion and expiry.
    LastingCounters,
    /// Pages of one time.
    Snapshots,
    /// Versions of before.
    History,
    /// Finding and writing in one step.
    Picks,
    /// Declared indexes.
    Indexes,
    /// A clock that stands still unless time is let go by.
    HandClock,
}

impl Need {
    /// Whether a store in its world has it.
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

/// A case that stores have to pass.
#[derive(Clone, Copy)]
pub struct StoreCase {
    /// Its file and its name.
    pub name: &'static str,
    /// What a store must have for it.
    pub needs: &'static [Need],
    /// What a store must lack for it.
    pub lacks: Option<Need>,
    /// The case itself; it fails by panicking.
    pub body: fn(&Stand<'_>),
}

impl StoreCase {
    /// Why a store is excused from it, if it is.
    pub fn excuse(&self, world: &dyn StoreWorld) -> Option<String> {
        let can = world.store().capabilities();
        let store = can.store;
        let missing = self.needs.iter().find(|need| !need.is_met(world, &can));
        let missing = missing.map(|need| format!("`{store}` lacks {need:?}"));
        let has = self.lacks.filter(|lack| lack.is_met(world, &can));
        missing.or_else(|| has.map(|has| format!("`{store}` has {has:?}")))
    }

    /// Runs it, unless the store is excused: then it says why.
    pub fn run(&self, world: &dyn StoreWorld) -> Option<String> {
        let excuse = self.excuse(world);
        match &excuse {
            Some(why) => println!("skipped {}: {why}", self.name),
            None => (self.body)(&Stand::of(world)),
        }
        excuse
    }
}

/// The cases that a store is excused from, with the reason.
pub fn skipped(world: &dyn StoreWorld) -> Vec<(&'static str, String)> {
    let cases = crate::store_cases::ALL.iter();
    cases.filter_map(|case| case.excuse(world).map(|why| (case.name, why))).collect()
}

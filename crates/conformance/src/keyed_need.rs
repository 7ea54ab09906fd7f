//! What a case of stores of keyed state needs, and which cases a store is excused from.

use crate::keyed_stand::{KeyedStand, KeyedWorld};
use mainstay_model::KeyedCapabilities;

/// What a case can need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyedNeed {
    /// Several writes that are all made or none.
    Atomic,
    /// Writes that wait for the frontier.
    Ordered,
    /// Merge functions.
    Merged,
    /// Logs of keys.
    Appends,
    /// A store that can be closed and opened again, and outlives that.
    Durable,
}

impl KeyedNeed {
    /// Whether a store in its world has it.
    pub fn is_met(self, world: &dyn KeyedWorld, can: &KeyedCapabilities) -> bool {
        match self {
            KeyedNeed::Atomic => can.atomic,
            KeyedNeed::Ordered => can.ordered,
            KeyedNeed::Merged => can.merged,
            KeyedNeed::Appends => can.appends,
            KeyedNeed::Durable => can.durable && world.can_reopen(),
        }
    }
}

/// A case that stores of keyed state have to pass.
#[derive(Clone, Copy)]
pub struct KeyedCase {
    /// Its file and its name.
    pub name: &'static str,
    /// What a store must have for it.
    pub needs: &'static [KeyedNeed],
    /// What a store must lack for it.
    pub lacks: Option<KeyedNeed>,
    /// The case itself; it fails by panicking.
    pub body: fn(&KeyedStand<'_>),
}

impl KeyedCase {
    /// Why a store is excused from it, if it is.
    pub fn excuse(&self, world: &dyn KeyedWorld) -> Option<String> {
        let can = KeyedStand::of(world).can();
        let store = can.store;
        let missing = self.needs.iter().find(|need| !need.is_met(world, &can));
        let missing = missing.map(|need| format!("`{store}` lacks {need:?}"));
        let has = self.lacks.filter(|lack| lack.is_met(world, &can));
        missing.or_else(|| has.map(|has| format!("`{store}` has {has:?}")))
    }

    /// Runs it, unless the store is excused: then it says why.
    pub fn run(&self, world: &dyn KeyedWorld) -> Option<String> {
        let excuse = self.excuse(world);
        match &excuse {
            Some(why) => println!("skipped {}: {why}", self.name),
            None => (self.body)(&KeyedStand::of(world)),
        }
        excuse
    }
}

/// The cases that a store is excused from, with the reason.
pub fn skipped(world: &dyn KeyedWorld) -> Vec<(&'static str, String)> {
    let cases = crate::keyed_store_cases::ALL.iter();
    cases.filter_map(|case| case.excuse(world).map(|why| (case.name, why))).collect()
}

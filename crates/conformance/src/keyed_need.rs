//! Capability requirements of the keyed state store cases.
//!
//! A store that lacks a required capability skips the case.

use crate::keyed_stand::{KeyedStand, KeyedWorld};
use mainstay_model::KeyedCapabilities;

/// A capability that a case can require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyedNeed {
    /// Batches of writes that apply all or nothing.
    Atomic,
    /// Ordered spaces, where writes wait for the frontier.
    Ordered,
    /// Spaces with merge functions.
    Merged,
    /// Logs of keys.
    Appends,
    /// Durable spaces, in a world that can close and reopen them.
    Durable,
}

impl KeyedNeed {
    /// Returns whether the store in this world has the capability.
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

/// A conformance case for stores of keyed state.
#[derive(Clone, Copy)]
pub struct KeyedCase {
    /// File and function, as `file::case`.
    pub name: &'static str,
    /// Capabilities that the store must have.
    pub needs: &'static [KeyedNeed],
    /// A capability that the store must not have.
    pub lacks: Option<KeyedNeed>,
    /// The test function, which panics on failure.
    pub body: fn(&KeyedStand<'_>),
}

impl KeyedCase {
    /// Returns the reason why the store skips this case; `None` if the case runs.
    pub fn excuse(&self, world: &dyn KeyedWorld) -> Option<String> {
        let can = KeyedStand::of(world).can();
        let store = can.store;
        let missing = self.needs.iter().find(|need| !need.is_met(world, &can));
        let missing = missing.map(|need| format!("`{store}` lacks {need:?}"));
        let has = self.lacks.filter(|lack| lack.is_met(world, &can));
        missing.or_else(|| has.map(|has| format!("`{store}` has {has:?}")))
    }

    /// Runs the case. If the store skips it, prints and returns the reason.
    pub fn run(&self, world: &dyn KeyedWorld) -> Option<String> {
        let excuse = self.excuse(world);
        match &excuse {
            Some(why) => println!("skipped {}: {why}", self.name),
            None => (self.body)(&KeyedStand::of(world)),
        }
        excuse
    }
}

/// Returns the cases that a store skips, with the reasons.
pub fn skipped(world: &dyn KeyedWorld) -> Vec<(&'static str, String)> {
    let cases = crate::keyed_store_cases::ALL.iter();
    cases.filter_map(|case| case.excuse(world).map(|why| (case.name, why))).collect()
}

//! Random actions of producers, stores and clocks.

use mainstay_runs::Resync;
use proptest::prelude::*;

/// One action.
#[derive(Clone, Debug)]
pub enum Deed {
    Append(&'static str),
    /// Appends an event that is not visible yet.
    Hide(&'static str),
    /// Burns sequence numbers.
    Burn(u64),
    /// Shows one of the hidden events.
    Show(usize),
    Pass(u64),
    Poll,
    Resync(Resync),
    Restart,
}

const TYPES: [&str; 11] = [
    "RunStarted",
    "RunPaused",
    "RunResumed",
    "RunCompleted",
    "StepStarted",
    "StepStarted",
    "StepCompleted",
    "StepFailed",
    "StepRetried",
    "Tick",
    "Tock",
];

/// A random sequence of actions.
pub fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let event_type = || prop::sample::select(TYPES.to_vec());
    let deed = prop_oneof![
        6 => event_type().prop_map(Deed::Append),
        3 => event_type().prop_map(Deed::Hide),
        1 => (1..4_u64).prop_map(Deed::Burn),
        3 => any::<usize>().prop_map(Deed::Show),
        3 => prop::sample::select(vec![1, 300, 1_000, 2_500, 12_000]).prop_map(Deed::Pass),
        5 => Just(Deed::Poll),
        1 => prop::sample::select(vec![Resync::Full, Resync::FromSnapshot]).prop_map(Deed::Resync),
        1 => Just(Deed::Restart),
    ];
    prop::collection::vec(deed, 0..60)
}

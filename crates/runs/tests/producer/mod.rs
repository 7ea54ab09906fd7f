//! Random actions of producers, stores and clocks.

use mainstay_runs::Resync;
use proptest::prelude::*;

/// One action.
#[derive(Clone, Debug)]
pub enum Action {
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
pub fn actions() -> impl Strategy<Value = Vec<Action>> {
    let event_type = || prop::sample::select(TYPES.to_vec());
    let action = prop_oneof![
        6 => event_type().prop_map(Action::Append),
        3 => event_type().prop_map(Action::Hide),
        1 => (1..4_u64).prop_map(Action::Burn),
        3 => any::<usize>().prop_map(Action::Show),
        3 => prop::sample::select(vec![1, 300, 1_000, 2_500, 12_000]).prop_map(Action::Pass),
        5 => Just(Action::Poll),
        1 => prop::sample::select(vec![Resync::Full, Resync::FromSnapshot]).prop_map(Action::Resync),
        1 => Just(Action::Restart),
    ];
    prop::collection::vec(action, 0..60)
}

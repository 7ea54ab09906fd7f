//! Stores that are opened again.

use super::bites;
use crate::bent::{Before, Bend};
use mainstay_conformance::keyed_store_cases::ALL;
use mainstay_model::KeyedCapabilities;

/// Says that it outlives the process.
struct Outlives;

impl Bend for Outlives {
    fn capabilities(&self, inner: KeyedCapabilities) -> KeyedCapabilities {
        KeyedCapabilities { store: "kept", durable: true, ..inner }
    }
}

fn cases() -> Vec<&'static str> {
    let names = ALL.iter().map(|case| case.name);
    names.filter(|name| name.starts_with("durable::")).collect()
}

#[test]
fn what_is_lost_when_it_is_opened_again() {
    bites(|| Before::bent(|| Outlives).losing_all(), &cases());
}

/// What is kept, is: the cases can be passed.
#[test]
fn what_is_kept_when_it_is_opened_again() {
    for case in ALL.iter().filter(|case| cases().contains(&case.name)) {
        let world = Before::bent(|| Outlives).keeping_all();
        assert_eq!(case.run(&world), None, "{}", case.name);
    }
}

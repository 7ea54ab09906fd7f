//! Faulty stores: durability.

use super::bites;
use crate::bent::{Before, Bend};
use mainstay_conformance::keyed_store_cases::ALL;
use mainstay_model::KeyedCapabilities;

/// Claims to be durable.
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

/// With a store that keeps its data, the same cases pass.
#[test]
fn what_is_kept_when_it_is_opened_again() {
    for case in ALL.iter().filter(|case| cases().contains(&case.name)) {
        let world = Before::bent(|| Outlives).keeping_all();
        assert_eq!(case.run(&world), None, "{}", case.name);
    }
}

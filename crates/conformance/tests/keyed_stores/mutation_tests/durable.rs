//! Faulty stores: durability.

use crate::faulty_store::{Faults, FaultySpaces};
use mainstay_conformance::suite::{self, Case, Contract};
use mainstay_model::{KeyedCapabilities, KeyedState};

fn cases() -> Vec<&'static str> {
    let names = <dyn KeyedState>::cases().iter().map(|case| case.name);
    names.filter(|name| name.starts_with("durable::")).collect()
}

/// Claims to be durable.
fn boasting() -> FaultySpaces {
    FaultySpaces::new(|| {
        Faults::default().capabilities(|inner| KeyedCapabilities {
            store: "kept",
            durable: true,
            ..inner.capabilities()
        })
    })
}

#[test]
fn what_is_lost_when_it_is_opened_again() {
    suite::detect(|| boasting().losing_all(), &cases());
}

/// With a store that keeps its data, the same cases pass.
#[test]
fn what_is_kept_when_it_is_opened_again() {
    for name in cases() {
        let case = Case::named(name, <dyn KeyedState>::cases());
        assert_eq!(case.run(&boasting().keeping_all()), None, "{name}");
    }
}

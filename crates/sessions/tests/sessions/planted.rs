//! Injected faults: the checks must detect each of them.

use super::script::Script;

use mainstay_sessions::{ClientFault, Faults};

fn script(seed: u64, injected_fault: Option<ClientFault>) -> Script {
    Script {
        faults: Faults::many(seed),
        clients: 2,
        tasks: 3,
        requests: 10,
        window: 3,
        deadline_ms: 1_000_000,
        lease_ms: 60_000,
        silences: 0,
        failures: 3,
        injected_fault,
    }
}

/// Returns whether any of several runs detects a violation.
fn is_found(injected_fault: ClientFault, change: impl Fn(&mut Script)) -> bool {
    (0..10).any(|seed| {
        let mut with = script(seed, Some(injected_fault));
        change(&mut with);
        let without = Script { injected_fault: None, ..with.clone() };
        assert_eq!(without.run().wrong, Vec::<String>::new());
        !with.run().wrong.is_empty()
    })
}

#[test]
fn a_new_number_for_each_attempt_is_found() {
    assert!(is_found(ClientFault::NewNumber, |_| {}));
}

#[test]
fn a_number_that_is_used_again_is_found() {
    assert!(is_found(ClientFault::ReusedNumber, |script| script.deadline_ms = 10));
}

#[test]
fn a_lowest_number_that_is_too_high_is_found() {
    assert!(is_found(ClientFault::LowestTooHigh, |_| {}));
}

#[test]
fn an_acknowledgement_before_the_handler_returned_is_found() {
    assert!(is_found(ClientFault::AcknowledgedFirst, |_| {}));
}

#[test]
fn a_wrong_promise_about_an_expired_session_is_found() {
    assert!(is_found(ClientFault::AlwaysExpired, |script| {
        (script.silences, script.lease_ms) = (4, 40);
    }));
}

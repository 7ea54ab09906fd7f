//! Claims with leases: one relay at a time holds a message.

use super::{LEASE, claim, claimed, outlast, send, subjects};
use crate::TestDb;
use crate::assertions::*;
use mainstay::Code;
use std::time::Duration;

/// A claim returns the oldest messages up to the limit, and no other claim returns them.
pub fn oldest_first_and_once(w: &mut TestDb) {
    for subject in ["a", "b", "c", "d", "e"] {
        send(w, subject, None);
    }
    let some = w.db().outbox().claim(2, LEASE).unwrap();
    assert_eq!(subjects(&some), ["a", "b"]);
    assert_eq!(claimed(w), ["c", "d", "e"]);
    assert!(claimed(w).is_empty());
}

/// A claim that finds no message writes nothing.
pub fn of_nothing_writes_nothing(w: &mut TestDb) {
    assert!(writes_nothing(w.db(), || claimed(w)).is_empty());
    send(w, "a", None);
    claim(w);
    assert!(writes_nothing(w.db(), || claimed(w)).is_empty());
}

/// After the lease expires the message can be claimed again, and its try counter rises.
pub fn lease_that_is_over(w: &mut TestDb) {
    let id = send(w, "a", None);
    claim(w);
    w.pass(LEASE - Duration::from_secs(1));
    assert!(claimed(w).is_empty());
    w.pass(Duration::from_secs(2));
    let again = claim(w);
    assert_eq!((again[0].id, again[0].tries), (id, 2));
    assert!(claimed(w).is_empty());
}

/// An acknowledged message is removed, and acknowledging it again has no effect.
pub fn delivered_goes(w: &mut TestDb) {
    let a = send(w, "a", None);
    let b = send(w, "b", None);
    claim(w);
    assert_eq!(w.db().outbox().ack(&[a, a, 9_999]).unwrap(), 1);
    assert_eq!(writes_nothing(w.db(), || w.db().outbox().ack(&[a]).unwrap()), 0);
    outlast(w);
    assert_eq!(claimed(w), ["b"]);
    assert_eq!(w.db().outbox().ack(&[b]).unwrap(), 1);
    assert_eq!(w.db().outbox().state().unwrap().pending, 0);
}

/// A relay whose lease has expired can still acknowledge without a token.
pub fn late_delivery_counts(w: &mut TestDb) {
    let id = send(w, "a", None);
    claim(w);
    outlast(w);
    claim(w);
    assert_eq!(w.db().outbox().ack(&[id]).unwrap(), 1);
    outlast(w);
    assert!(claimed(w).is_empty());
}

/// With the token of an expired lease, `ack_held` and `fail_held` fail with `Fenced` and change nothing.
pub fn a_lease_that_is_over_is_fenced(w: &mut TestDb) {
    let a = send(w, "a", None);
    let b = send(w, "b", None);
    let outbox = w.db().outbox();
    let hold = || outbox.hold(10, LEASE).unwrap();
    let first = hold();
    assert_eq!(first.messages.len(), 2);
    outlast(w);
    let second = hold();
    let code = |error: mainstay::Error| error.code();
    let back_off = Duration::from_secs(1);
    assert_eq!(outbox.ack_held(first.token, &[a, b]).map_err(code), Err(Code::Fenced));
    let failed = outbox.fail_held(first.token, a, "no", back_off, 1).map_err(code);
    assert_eq!(failed, Err(Code::Fenced));
    assert_eq!(outbox.state().unwrap().pending, 2);
    assert_eq!(outbox.ack_held(second.token, &[a]).unwrap(), 1);
    assert!(outbox.fail_held(second.token, b, "no", back_off, 9).is_ok());
    // The failure of `b` released its lease.
    assert_eq!(outbox.ack_held(second.token, &[a, b]).map_err(code), Err(Code::Fenced));
    assert_eq!(outbox.state().unwrap().pending, 1);
}

/// Limits and leases are checked.
pub fn limits_are_checked(w: &mut TestDb) {
    let claim = |limit, lease| w.db().outbox().claim(limit, lease);
    refused(claim(0, LEASE), Code::InvalidLimit);
    refused(claim(1_001, LEASE), Code::InvalidLimit);
    refused(claim(1, Duration::ZERO), Code::InvalidTtl);
    refused(claim(1, Duration::from_secs(86_401)), Code::InvalidTtl);
    refused(w.db().outbox().dead(0, 0), Code::InvalidLimit);
}

/// With several relays, each message goes to exactly one of them.
pub fn many_relays(w: &mut TestDb) {
    let mut sent: Vec<u64> = (0..60).map(|n| send(w, &n.to_string(), None)).collect();
    let relay = |_| {
        let outbox = w.db().outbox();
        std::thread::spawn(move || {
            let mut mine = Vec::new();
            loop {
                let some = outbox.claim(3, LEASE).unwrap();
                if some.is_empty() {
                    return mine;
                }
                mine.extend(some.into_iter().map(|message| message.id));
            }
        })
    };
    let relays: Vec<_> = (0..4).map(relay).collect();
    let mut got: Vec<u64> = relays.into_iter().flat_map(|relay| relay.join().unwrap()).collect();
    got.sort_unstable();
    sent.sort_unstable();
    assert_eq!(got, sent);
}

//! Relays on their own threads, with the system clock.

use mainstay::{Database, Message};
use mainstay_runs::relay::{MemoryTransport, Relay, RelaySettings};
use std::collections::BTreeMap;

/// Timeouts so long that a test that depends on one fails.
fn slow() -> RelaySettings {
    RelaySettings {
        poll_ms: 60_000,
        lease_ms: 3_600_000,
        backoff_ms: 10,
        ..RelaySettings::default()
    }
}

/// The messages of each run in the order of their first arrival.
pub fn first_of_runs(messages: &[Message]) -> BTreeMap<String, Vec<u64>> {
    let mut runs: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for message in messages {
        let of_run = runs.entry(message.run.clone().unwrap_or_default()).or_default();
        if !of_run.contains(&message.id) {
            of_run.push(message.id);
        }
    }
    runs
}

#[test]
fn a_message_is_heard_of_at_once() {
    let db = Database::memory().unwrap();
    let transport = MemoryTransport::new();
    let relay = Relay::new(&db, transport.clone(), slow()).unwrap().start().unwrap();
    for count in 1..=50 {
        db.outbox().put("s", "", None).unwrap();
        assert_eq!(
            transport.wait_for(count).len(),
            count,
            "it sleeps for a minute if it is not woken"
        );
    }
    assert_eq!(relay.stop().delivered, 50);
    assert_eq!(db.outbox().state().unwrap().pending, 0, "it has acknowledged before it ended");
}

#[test]
fn what_is_due_later_is_delivered_then() {
    let db = Database::memory().unwrap();
    let transport = MemoryTransport::new();
    transport.refuse(|message| message.tries < 4);
    let relay = Relay::new(&db, transport.clone(), slow()).unwrap().start().unwrap();
    db.outbox().put("s", "", None).unwrap();
    assert_eq!(transport.wait_for(1).len(), 1);
    assert_eq!(relay.stop().failed, 3);
}

#[test]
fn several_relays_keep_the_order_of_each_run() {
    let db = Database::memory().unwrap();
    let transport = MemoryTransport::new();
    let mut chance = 7_u64;
    transport.refuse(move |_| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (chance >> 33).is_multiple_of(10)
    });
    let relays: Vec<_> = (0..4)
        .map(|_| Relay::new(&db, transport.clone(), slow()).unwrap().start().unwrap())
        .collect();
    for n in 0..400 {
        db.outbox().put("s", "", Some(&format!("run {}", n % 16))).unwrap();
    }
    let messages = transport.wait_for(400);
    let delivered: u64 = relays.into_iter().map(|relay| relay.stop().delivered).sum();
    assert_eq!((delivered, db.outbox().state().unwrap().pending), (400, 0));
    let runs = first_of_runs(&messages);
    assert_eq!(runs.len(), 16);
    assert!(runs.values().all(|ids| ids.len() == 25 && ids.is_sorted()), "{runs:?}");
}

#[test]
fn a_closed_database_ends_it() {
    let db = Database::memory().unwrap();
    let transport = MemoryTransport::new();
    let relay = Relay::new(&db, transport, slow()).unwrap().start().unwrap();
    db.close().unwrap();
    assert_eq!(relay.stop().delivered, 0);
}

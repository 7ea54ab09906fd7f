//! One relay, round by round.

use crate::world::{World, now};
use mainstay::{Answering, Message};
use mainstay_runs::relay::{MemoryTransport, RelaySettings, Transport};
use std::sync::Arc;

fn settings() -> RelaySettings {
    RelaySettings { backoff_ms: 100, tries: 3, ..RelaySettings::default() }
}

fn subjects(transport: &MemoryTransport) -> Vec<String> {
    transport.delivered().into_iter().map(|message| message.subject).collect()
}

#[test]
fn a_message_that_fails_waits_longer_each_time_and_holds_up_its_run_alone() {
    let world = World::new();
    let transport = MemoryTransport::new();
    let relay = world.relay(transport.clone(), settings());
    for (subject, run) in
        [("bad", Some("r")), ("behind", Some("r")), ("other", Some("s")), ("free", None)]
    {
        world.put(subject, run);
    }
    transport.refuse(|message| message.subject == "bad");
    assert_eq!(now(relay.round()).unwrap(), 3);
    assert_eq!(subjects(&transport), ["other", "free"]);
    world.pass_ms(99);
    assert_eq!(now(relay.round()).unwrap(), 0);
    // Two timestamps of the same moment differ by microseconds.
    world.pass_ms(2);
    assert_eq!(now(relay.round()).unwrap(), 1);
    world.pass_ms(198);
    assert_eq!(now(relay.round()).unwrap(), 0, "the second wait is twice the first");
    world.pass_ms(3);
    now(relay.round()).unwrap();
    let stats = relay.stats();
    assert_eq!((stats.delivered, stats.failed, stats.dead), (2, 3, 1));
    assert_eq!((stats.outbox.dead, stats.outbox.pending), (1, 1));
    assert!(stats.last_error.unwrap().contains("refused"));
    assert_eq!(now(relay.round()).unwrap(), 1);
    assert_eq!(subjects(&transport), ["other", "free", "behind"], "a dead one holds up nobody");

    transport.refuse(|_| false);
    assert_eq!(relay.replay_dead().unwrap(), 1);
    now(relay.round()).unwrap();
    assert_eq!(subjects(&transport).last().unwrap(), "bad");
    assert_eq!((world.pending(), relay.stats().outbox.dead), (0, 0));
}

#[test]
fn figures_say_how_long_the_oldest_message_waits() {
    let world = World::new();
    let transport = MemoryTransport::new();
    let relay = world.relay(transport, RelaySettings { batch: 1, ..settings() });
    for subject in ["a", "b"] {
        world.put(subject, None);
    }
    world.pass_ms(250);
    now(relay.round()).unwrap();
    let waits_us = relay.stats().oldest_pending_us.unwrap();
    assert!((250_000..251_000).contains(&waits_us), "{waits_us}");
    now(relay.round()).unwrap();
    assert_eq!(relay.stats().oldest_pending_us, None);
}

#[test]
fn another_branch_has_an_outbox_of_its_own() {
    let transport = MemoryTransport::new();
    let world = World::serving_branches();
    world.put("inherited", None);
    world.db.fork("b", "main", mainstay::At::Latest).unwrap();
    world.db.branch("b").unwrap().outbox().put("own", "", None).unwrap();
    let settings = RelaySettings { branch: "b".to_owned(), ..settings() };
    assert_eq!(now(world.relay(transport.clone(), settings).round()).unwrap(), 1);
    assert_eq!(subjects(&transport), ["own"]);
    assert_eq!(world.pending(), 1);
}

#[test]
fn a_branch_that_is_not_served_is_not_relayed() {
    let world = World::new();
    let transport = MemoryTransport::new();
    world.db.fork("b", "main", mainstay::At::Latest).unwrap();
    world.db.branch("b").unwrap().outbox().put("own", "", None).unwrap();
    let of_b = RelaySettings { branch: "b".to_owned(), ..settings() };
    let refused = now(world.relay(transport.clone(), of_b).round()).unwrap_err();
    assert_eq!(refused.code(), mainstay::Code::Unsupported);
    assert!(subjects(&transport).is_empty());
    world.db.merge("b", "main", mainstay::MergeStrategy::Strict).unwrap();
    assert_eq!(now(world.relay(transport.clone(), settings()).round()).unwrap(), 1);
    assert_eq!(subjects(&transport), ["own"]);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let bad = [
        RelaySettings { branch: String::new(), ..settings() },
        RelaySettings { batch: 0, ..settings() },
        RelaySettings { batch: 1_001, ..settings() },
        RelaySettings { lease_ms: 0, ..settings() },
        RelaySettings { tries: 0, ..settings() },
        RelaySettings { tries: 11, ..settings() },
        RelaySettings { poll_ms: 0, ..settings() },
    ];
    let world = World::new();
    for settings in bad {
        let relay = mainstay_runs::relay::Relay::new(&world.db, MemoryTransport::new(), settings);
        assert!(relay.is_err());
    }
}

/// Panics at the first message, fails to settle the second, and accepts the rest.
#[derive(Default)]
struct FailingTransport(parking_lot::Mutex<u32>);

impl Transport for FailingTransport {
    fn name(&self) -> &str {
        "moody"
    }

    fn deliver<'a>(&'a self, message: &'a Message) -> Answering<'a, ()> {
        Box::pin(async move {
            assert!(message.tries > 1, "not today");
            Ok(())
        })
    }

    fn flush(&self) -> Answering<'_, ()> {
        let mut asked = self.0.lock();
        *asked += 1;
        let fails = *asked == 1;
        Box::pin(async move {
            if fails {
                Err(mainstay::Error::new(mainstay::Code::DiskFull, "no room to stay"))
            } else {
                Ok(())
            }
        })
    }
}

#[test]
fn panics_and_what_does_not_stay_are_failures_like_others() {
    let world = World::new();
    let relay = world.relay(Arc::new(FailingTransport::default()), settings());
    world.put("a", None);
    now(relay.round()).unwrap();
    assert!(relay.stats().last_error.unwrap().contains("not today"));
    world.pass_ms(101);
    now(relay.round()).unwrap();
    assert!(relay.stats().last_error.unwrap().contains("no room to stay"));
    assert_eq!((relay.stats().delivered, world.pending()), (0, 1), "it is not acknowledged");
    world.pass_ms(201);
    now(relay.round()).unwrap();
    assert_eq!((relay.stats().delivered, world.pending()), (1, 0));
}

/// During its delivery, the lease expires and another consumer claims the message.
struct SlowTransport(World);

impl Transport for SlowTransport {
    fn name(&self) -> &str {
        "slow"
    }

    fn deliver<'m>(&'m self, _: &'m Message) -> Answering<'m, ()> {
        Box::pin(async {
            self.0.pass_ms(60_000);
            self.0.db.outbox().claim(1, std::time::Duration::from_secs(3_600)).map(drop)
        })
    }
}

#[test]
fn a_relay_whose_lease_is_over_leaves_the_lease_of_the_next_one_alone() {
    let world = World::new();
    world.put("a", None);
    let db = world.db.clone();
    let clock = world.clock.clone();
    let relay = world.relay(Arc::new(SlowTransport(World { clock, db })), settings());
    assert_eq!(now(relay.round()).unwrap(), 1);
    assert_eq!(world.pending(), 1, "whoever has it now says what becomes of it");
    assert_eq!((relay.stats().fenced, relay.stats().errors), (1, 0));
    assert!(world.db.outbox().claim(1, std::time::Duration::from_secs(1)).unwrap().is_empty());
}

//! Random programs: failing transports, relays that die or return late, and several relays at once.

use crate::threads::first_of_runs;
use crate::world::World;
use mainstay::{Answering, Code, Error, Message};
use mainstay_runs::relay::{Relay, RelaySettings, Transport};
use parking_lot::Mutex;
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};
use std::future::pending;
use std::sync::Arc;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

/// The outcome of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeliveryOutcome {
    Arrives,
    Fails,
    /// The relay dies before the message arrives.
    DiesBefore,
    /// The relay dies between the delivery and the acknowledgement.
    DiesBehind,
    /// The relay is so slow that another relay has claimed the message in the meantime.
    Late,
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8),
    Round { relay: usize, outcomes: Vec<DeliveryOutcome> },
    Pass(u64),
    LateOnesArrive,
    Replay,
}

struct FaultyTransport {
    outcomes: Mutex<VecDeque<DeliveryOutcome>>,
    arrived: Mutex<Vec<Message>>,
    halted: Notify,
    halted_by: Mutex<DeliveryOutcome>,
    gate: Semaphore,
}

impl FaultyTransport {
    async fn take(&self, message: &Message) -> mainstay::Result<()> {
        let outcome = self.outcomes.lock().pop_front().unwrap_or(DeliveryOutcome::Arrives);
        if outcome == DeliveryOutcome::Fails {
            return Err(Error::new(Code::TimedOut, "it did not arrive"));
        }
        if matches!(outcome, DeliveryOutcome::DiesBefore | DeliveryOutcome::Late) {
            self.halt(outcome).await;
        }
        self.arrived.lock().push(message.clone());
        if outcome == DeliveryOutcome::DiesBehind {
            self.halt(outcome).await;
        }
        Ok(())
    }

    async fn halt(&self, outcome: DeliveryOutcome) {
        *self.halted_by.lock() = outcome;
        self.halted.notify_one();
        match outcome {
            DeliveryOutcome::Late => {
                self.gate.acquire().await.expect("it is never closed").forget()
            }
            _ => pending().await,
        }
    }
}

impl Transport for FaultyTransport {
    fn name(&self) -> &str {
        "chaos"
    }

    fn deliver<'a>(&'a self, message: &'a Message) -> Answering<'a, ()> {
        Box::pin(self.take(message))
    }
}

struct Program {
    world: World,
    transport: Arc<FaultyTransport>,
    relays: Vec<Relay>,
    late: Vec<JoinHandle<mainstay::Result<usize>>>,
    put: BTreeSet<u64>,
    /// Messages that were dead at some time: their run continued without them.
    dead: BTreeSet<u64>,
}

impl Program {
    fn new() -> Program {
        let world = World::new();
        let transport = Arc::new(FaultyTransport {
            outcomes: Mutex::default(),
            arrived: Mutex::default(),
            halted: Notify::new(),
            halted_by: Mutex::new(DeliveryOutcome::Arrives),
            gate: Semaphore::new(0),
        });
        let settings = RelaySettings {
            batch: 4,
            lease_ms: 60_000,
            backoff_ms: 1_000,
            tries: 3,
            ..RelaySettings::default()
        };
        let relays = (0..3).map(|_| world.relay(transport.clone(), settings.clone())).collect();
        let put = BTreeSet::new();
        let dead = BTreeSet::new();
        Program { world, transport, relays, late: Vec::new(), put, dead }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Put(run) => {
                let run = format!("run {run}");
                self.put.insert(
                    self.world
                        .put("s", Some(&run).filter(|_| run != "run 0").map(|run| run.as_str())),
                );
            }
            Step::Round { relay, outcomes } => {
                *self.transport.outcomes.lock() = outcomes.into();
                self.round(relay).await;
                self.transport.outcomes.lock().clear();
            }
            Step::Pass(ms) => self.world.pass_ms(ms),
            Step::LateOnesArrive => self.let_late_ones_arrive().await,
            Step::Replay => drop(self.relays[0].replay_dead().unwrap()),
        }
        let dead = self.world.db.outbox().dead(0, 1_000).unwrap();
        self.dead.extend(dead.into_iter().map(|message| message.id));
    }

    async fn round(&mut self, relay: usize) {
        let relay = self.relays[relay].clone();
        let mut task = tokio::spawn(async move { relay.round().await });
        tokio::select! {
            biased;
            done = &mut task => drop(done.unwrap().unwrap()),
            () = self.transport.halted.notified() => match *self.transport.halted_by.lock() {
                DeliveryOutcome::Late => self.late.push(task),
                _ => task.abort(),
            },
        }
    }

    async fn let_late_ones_arrive(&mut self) {
        for task in self.late.drain(..) {
            self.transport.gate.add_permits(1);
            task.await.unwrap().unwrap();
        }
    }

    /// From here on no faults occur, so every message must arrive.
    async fn finish(&mut self) {
        self.step(Step::LateOnesArrive).await;
        while self.world.pending() > 0 || self.relays[0].replay_dead().unwrap() > 0 {
            self.step(Step::Pass(3_600_000)).await;
            self.step(Step::Round { relay: 1, outcomes: Vec::new() }).await;
        }
        let arrived = self.transport.arrived.lock().clone();
        let ids: BTreeSet<u64> = arrived.iter().map(|message| message.id).collect();
        assert_eq!(ids, self.put, "every message arrives");
        for (run, ids) in first_of_runs(&arrived).iter().filter(|(run, _)| !run.is_empty()) {
            let ids: Vec<_> = ids.iter().filter(|id| !self.dead.contains(id)).collect();
            assert!(ids.is_sorted(), "{run} arrives in order: {ids:?}");
        }
    }
}

fn outcome() -> impl Strategy<Value = DeliveryOutcome> {
    prop_oneof![
        3 => Just(DeliveryOutcome::Arrives),
        2 => Just(DeliveryOutcome::Fails),
        1 => Just(DeliveryOutcome::DiesBefore),
        1 => Just(DeliveryOutcome::DiesBehind),
        1 => Just(DeliveryOutcome::Late),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let outcomes = proptest::collection::vec(outcome(), 0..5);
    prop_oneof![
        4 => (0..4_u8).prop_map(Step::Put),
        5 => (0..3_usize, outcomes).prop_map(|(relay, outcomes)| Step::Round { relay, outcomes }),
        3 => prop_oneof![Just(500), Just(1_000), Just(4_000), Just(60_000)].prop_map(Step::Pass),
        1 => Just(Step::LateOnesArrive),
        1 => Just(Step::Replay),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_message_arrives_and_those_of_a_run_in_order(steps in proptest::collection::vec(step(), 1..60)) {
        crate::world::now(async {
            let mut program = Program::new();
            for step in steps {
                program.step(step).await;
            }
            program.finish().await;
        });
    }
}

//! The outbox relay on a remote database: it dies in the middle, and another relay continues in order.

use crate::support::Ours;
use mainstay::{Answering, Database, Message, remote};
use mainstay_runs::relay::{MemoryTransport, Relay, RelaySettings, Transport};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const PER_RUN: u64 = 8;

fn connect(server: &Ours) -> Database {
    remote::connect(&server.address.to_string()).unwrap()
}

/// Delivers some messages, and then never returns from the next one.
struct Dying {
    inner: Arc<MemoryTransport>,
    delivers: usize,
    died: Sender<()>,
}

impl Transport for Dying {
    fn name(&self) -> &str {
        "dying"
    }

    fn deliver<'a>(&'a self, message: &'a Message) -> Answering<'a, ()> {
        Box::pin(async move {
            if self.inner.delivered().len() == self.delivers {
                let _ = self.died.send(());
                std::future::pending::<()>().await;
            }
            self.inner.deliver(message).await
        })
    }
}

/// Leases are short, so that messages of the dead relay are soon available to the next one.
fn settings() -> RelaySettings {
    RelaySettings { lease_ms: 300, poll_ms: 50, ..RelaySettings::default() }
}

/// Runs a relay until its transport hangs, and abandons it in that state.
fn run_until_death(db: &Database, delivers: usize) -> Vec<Message> {
    let (died, dies): (Sender<()>, Receiver<()>) = channel();
    let inner = MemoryTransport::new();
    let transport = Arc::new(Dying { inner: inner.clone(), delivers, died });
    // The lease is so long that the relay itself does not give up the hanging message during this test.
    let settings = RelaySettings { lease_ms: 5_000, ..settings() };
    let relay = Relay::new(db, transport, settings).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let running = runtime.spawn(async move { relay.run().await });
    dies.recv_timeout(PATIENCE).expect("it delivers so many and dies");
    running.abort();
    runtime.shutdown_background();
    inner.delivered()
}

/// Returns the ids of messages by run, in the order of delivery. Immediate repeats are merged.
fn by_run(messages: &[Message]) -> BTreeMap<String, Vec<u64>> {
    let mut runs: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for message in messages {
        runs.entry(message.run.clone().unwrap()).or_default().push(message.id);
    }
    runs.values_mut().for_each(Vec::dedup);
    runs
}

#[test]
fn a_relay_that_dies_in_the_middle_is_followed_by_one_that_keeps_the_order() {
    let server = Ours::start();
    let writer = connect(&server);
    let mut expected: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for number in 0..3 * PER_RUN {
        let run = format!("run {}", number % 3);
        let id = writer.outbox().put("orders", "paid", Some(&run)).unwrap();
        expected.entry(run).or_default().push(id);
    }
    let mut came = run_until_death(&connect(&server), 10);
    assert_eq!(came.len(), 10);
    let transport = MemoryTransport::new();
    let relay = Relay::new(&connect(&server), transport.clone(), settings()).unwrap();
    let thread = relay.start().unwrap();
    // Of the first ten messages at most those of one claim, one of each run, were not acknowledged.
    let left = 3 * PER_RUN as usize - came.len();
    transport.wait_for(left);
    while writer.outbox().state().unwrap().pending > 0 {
        std::thread::yield_now();
    }
    let figures = thread.stop();
    came.extend(transport.delivered());
    assert_eq!(by_run(&came), expected, "each run's messages in order, none left out");
    assert!(came.len() <= 3 * PER_RUN as usize + 3, "only what was under way came twice");
    assert_eq!(figures.failed, 0);
    let state = writer.outbox().state().unwrap();
    assert_eq!((state.pending, state.dead), (0, 0));
}

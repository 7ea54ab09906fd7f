//! Transports that deliver a call twice: their result must be true of both copies.

use super::world::{never, settings, world};
use super::*;
use mainstay::{Answering, ErrorKind, Hold, SessionCommand};
use mainstay_sessions::simulation::{InlineTransport, SimulatedRuntime};
use mainstay_sessions::{Client, Faults, Faulty, MessageWaker, Transport};
// SeqCst in these tests: the counters and flags synchronize with other threads, and speed does not matter.
use std::sync::atomic::{AtomicU64, Ordering};

/// A transport on which another client takes the session between the first request and the next.
struct Taken {
    inner: InlineTransport,
    db: Database,
    requests: AtomicU64,
}

impl Taken {
    fn take(&self) {
        let over = self.db.sessions().info("s").unwrap().unwrap().epoch;
        let session = name("s");
        let hold = Some(Hold { nonce: 1, over });
        let open = SessionCommand::Open { session, lease_ms: None, capabilities: Vec::new(), hold };
        self.db.execute(Transaction::new().step(open)).unwrap();
    }
}

impl Transport for Taken {
    fn execute(&self, transaction: Transaction) -> Answering<'_, Receipt> {
        let is_request = transaction.session().is_some();
        if is_request && self.requests.fetch_add(1, Ordering::SeqCst) == 1 {
            self.take();
        }
        self.inner.execute(transaction)
    }

    fn watch<'a>(&'a self, session: &'a Name) -> Answering<'a, Box<dyn MessageWaker>> {
        self.inner.watch(session)
    }
}

#[test]
fn a_copy_that_finds_the_session_gone_says_nothing_of_the_copy_before() {
    for seed in 0..20 {
        let world = world();
        let inner = InlineTransport::new(&world.db);
        let db = world.db.clone();
        let transport = Arc::new(Taken { inner, db, requests: AtomicU64::new(0) });
        let twice = Faulty::new(transport, Faults { repeat: 1.0, seed, ..never() });
        let runtime = Arc::new(SimulatedRuntime(world.simulation.clone()));
        let client = Client::on(twice, settings(), runtime).unwrap();
        let session = world.run(client.open_async(named("s"))).unwrap();
        let answer = world.run(session.execute(add("n", 1)));
        assert_eq!(world.value("n"), 1);
        let is_true = answer.as_ref().map_or_else(
            |error| error.kind() == ErrorKind::UnknownOutcome,
            |receipt| number(&receipt.answers[0]) == 1,
        );
        assert!(is_true, "seed {seed}: {answer:?}");
    }
}

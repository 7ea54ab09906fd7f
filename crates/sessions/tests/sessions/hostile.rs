//! A database with impossible answers: the client returns an error or continues, and never panics.

use super::world::{World, settings, world};
use super::*;
use mainstay::{Answering, SessionAnswer, SessionInfo};
use mainstay_sessions::simulation::{InlineTransport, SimulatedRuntime};
use mainstay_sessions::{Client, MessageWaker, Transport};

/// A manipulation of the session info.
type Lie = fn(&mut SessionInfo);

/// A transport that manipulates the answer of an opening.
struct Lying {
    inner: InlineTransport,
    lie: Lie,
}

impl Transport for Lying {
    fn execute(&self, transaction: Transaction) -> Answering<'_, Receipt> {
        Box::pin(async move {
            let mut receipt = self.inner.execute(transaction).await?;
            for answer in &mut receipt.answers {
                if let Answer::Session(answer) = answer
                    && let SessionAnswer::Opened { info, .. } = &mut **answer
                {
                    (self.lie)(info);
                }
            }
            Ok(receipt)
        })
    }

    fn watch<'a>(&'a self, session: &'a Name) -> Answering<'a, Box<dyn MessageWaker>> {
        self.inner.watch(session)
    }
}

/// Runs a client for a while.
fn works(world: &World, lie: Lie) {
    let transport = Arc::new(Lying { inner: InlineTransport::new(&world.db), lie });
    let runtime = Arc::new(SimulatedRuntime(world.simulation.clone()));
    let client = Client::on(transport, settings(), runtime).unwrap();
    let Ok(session) = world.run(client.open_async(named("s"))) else { return };
    let listening = session.clone();
    world.simulation.spawn(async move {
        let _ = listening.listen(|_| std::future::ready(Ok(()))).await;
    });
    for _ in 0..3 {
        let _ = world.run(session.execute(add("n", 1)));
        let _ = world.run(session.keep_alive());
        world.db.sessions().send("s", "x").unwrap();
        world.sleep(secs(30));
    }
    let _ = world.run(session.reopen());
}

#[test]
fn numbers_that_make_no_sense_are_borne() {
    let lies: [Lie; 6] = [
        |info| info.lease_ms = u64::MAX,
        |info| info.next_request = 0,
        |info| info.next_request = u64::MAX,
        |info| (info.last_sent, info.pending) = (0, u64::MAX),
        |info| info.last_sent = u64::MAX,
        |info| (info.opened, info.epoch, info.expires) = (u64::MAX, u64::MAX, u64::MAX),
    ];
    for lie in lies {
        works(&world(), lie);
    }
}

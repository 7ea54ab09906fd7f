//! A simulated connection to the server: messages take time, and calls fail while the server is down.

use super::server::Server;
use mainstay::{Answering, ChangeKind, Event, Feed, Name, Receipt, Result, Transaction};
use mainstay_conformance::random::Random;
use mainstay_sessions::simulation::Simulation;
use mainstay_sessions::{MessageWaker, Task, Transport};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

/// The connection of one client.
pub struct Line {
    server: Arc<Server>,
    simulation: Arc<Simulation>,
    random: Mutex<Random>,
}

impl Line {
    /// Creates a connection to a server.
    pub fn new(server: &Arc<Server>, simulation: &Arc<Simulation>, random: Random) -> Arc<Line> {
        let server = server.clone();
        let simulation = simulation.clone();
        Arc::new(Line { server, simulation, random: Mutex::new(random) })
    }

    /// Waits for the travel time of a message.
    fn travel(&self) -> Task {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let us = if random.chance(30) { 0 } else { random.below(3000) };
        self.simulation.sleep(Duration::from_micros(us))
    }
}

impl Transport for Line {
    fn execute(&self, transaction: Transaction) -> Answering<'_, Receipt> {
        Box::pin(async move {
            self.travel().await;
            let answer = self.server.execute(transaction);
            self.travel().await;
            answer
        })
    }

    fn watch<'a>(&'a self, session: &'a Name) -> Answering<'a, Box<dyn MessageWaker>> {
        Box::pin(async move {
            self.travel().await;
            let feed = self.server.watch(session.as_str())?;
            Ok(Box::new(Bell { feed, server: self.server.clone() }) as Box<dyn MessageWaker>)
        })
    }
}

struct Bell {
    feed: Feed,
    server: Arc<Server>,
}

impl Bell {
    fn next_event(&mut self) -> Result<Option<Event>> {
        let next = self.feed.next(Duration::ZERO);
        self.server.notice_power();
        next
    }
}

impl MessageWaker for Bell {
    fn next(&mut self) -> Answering<'_, u64> {
        Box::pin(poll_fn(|context| {
            while let Some(event) = self.next_event()? {
                if event.kind == ChangeKind::Sent {
                    return Poll::Ready(Ok(event.counter));
                }
            }
            self.server.listen(context.waker().clone());
            Poll::Pending
        }))
    }
}

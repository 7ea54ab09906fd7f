//! Appends over all connections, one in flight on each.

use super::lane::Lane;
use super::process::Postgres;
use super::schema::Form;
use super::types::Jsonb;
use crate::context::Outcome;
use crate::forms::{Part, together};
use crate::harness::Slice;
use crate::runs::events::{Notes, Producer, check};
use mainstay_server::histogram::Histogram;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_postgres::{Client, Statement};

/// Number of threads that drive the connections.
const THREADS: usize = 2;

/// All connections and their producers.
pub struct Appending {
    works: Vec<Work>,
}

impl Appending {
    /// Opens the connections, with one producer each.
    pub fn connect(
        postgres: &Postgres,
        form: Form,
        connections: usize,
        notes: &Notes,
        repeats: bool,
    ) -> Outcome<Appending> {
        let config = postgres.config();
        let share = connections / THREADS;
        let work = |thread: usize| {
            Work::prepare(Lane::connect(&config, share)?, form, |place| {
                Producer::new(notes, thread * share + place, repeats)
            })
        };
        Ok(Appending { works: (0..THREADS).map(work).collect::<Outcome<_>>()? })
    }

    /// Appends for a while.
    pub fn run(&mut self, slice: Duration) -> Outcome<Slice> {
        together(&mut self.works, |work| work.run(slice))
    }
}

/// The work of one thread.
struct Work {
    lane: Lane,
    appenders: Vec<Appender>,
}

impl Work {
    fn prepare(lane: Lane, form: Form, producer: impl Fn(usize) -> Producer) -> Outcome<Work> {
        let appender = |(place, client): (usize, &Arc<Client>)| {
            let statement = lane.runtime.block_on(client.prepare(form.append()))?;
            Ok(Appender { client: Arc::clone(client), statement, producer: producer(place) })
        };
        let appenders = lane.clients.iter().enumerate().map(appender).collect::<Outcome<_>>()?;
        Ok(Work { lane, appenders })
    }

    fn run(&mut self, slice: Duration) -> Outcome<Part> {
        let part = Part::begin();
        let latency = Arc::new(Histogram::new());
        let mut tasks = JoinSet::new();
        let runtime = self.lane.runtime.handle();
        for appender in self.appenders.drain(..) {
            let until = part.started + slice;
            tasks.spawn_on(appender.run(until, Arc::clone(&latency)), runtime);
        }
        let mut operations = 0;
        while let Some(done) = self.lane.runtime.block_on(tasks.join_next()) {
            let (appender, count) = done??;
            self.appenders.push(appender);
            operations += count;
        }
        part.latency.add(&latency);
        Ok(Part { operations, ended: Instant::now(), ..part })
    }
}

/// One connection and its producer.
struct Appender {
    client: Arc<Client>,
    statement: Statement,
    producer: Producer,
}

impl Appender {
    async fn run(mut self, until: Instant, latency: Arc<Histogram>) -> Outcome<(Appender, u64)> {
        let mut operations = 0;
        let mut now = Instant::now();
        while now < until {
            self.append().await?;
            let ended = Instant::now();
            latency.record((ended - now).as_nanos() as u64);
            operations += 1;
            now = ended;
        }
        Ok((self, operations))
    }

    async fn append(&mut self) -> Outcome<()> {
        let (told, fresh) = self.producer.next();
        let key = told.key()?;
        let emitted = told.emitted();
        let row = self
            .client
            .query_one(
                &self.statement,
                &[&told.run, &told.event_type, &told.step, &Jsonb(&told.data), &key, &emitted],
            )
            .await?;
        Ok(check(fresh, row.try_get::<_, i64>(0)? > 0)?)
    }
}

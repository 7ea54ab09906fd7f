//! A simulated client: sends requests, handles messages, falls silent, crashes, resumes from its journal.
//!
//! ```text
//!   life 1   open ── number 7 in the journal ── sent ── crash
//!   life 2   resume with 7, and its epoch from the journal ── its answer, or an unknown outcome
//! ```

use super::World;
use super::book::Handled;
use super::crowd::{self, Part};
use super::line::Line;
use super::machine::Machine;
use super::operation::{Operation, session as session_name};
use mainstay::{Code, Error, ErrorKind, Receipt, Result, SessionOptions, Stamp, Transaction};
use mainstay_conformance::random::Random;
use mainstay_sessions::{AsyncSession, Client, Faults, Faulty, Request, ServerMessage, Settings};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most retries for an overdue answer.
const PATIENCE: u32 = 3;

/// The owner of one session, with one client after the other.
pub struct Person {
    world: Arc<World>,
    number: usize,
    way: Arc<Faulty>,
    journal: Mutex<Journal>,
    random: Mutex<Random>,
}

/// The state that survives a crash of the client. The client's disk never fails.
#[derive(Default)]
struct Journal {
    lives: u64,
    /// The number of requests so far.
    asked: u64,
    is_done: bool,
    /// The last known epoch of its session; 0 if none.
    epoch: Stamp,
    /// The requests without an answer, by epoch and number.
    open: BTreeMap<(Stamp, u64), Written>,
}

#[derive(Clone)]
struct Written {
    id: u64,
    transaction: Transaction,
}

impl Person {
    /// Creates a client with a connection to the server.
    pub fn new(world: &Arc<World>, number: usize) -> Arc<Person> {
        let part = 100 + number as u64;
        let line = Line::new(&world.server, &world.simulation, world.random(part * 2));
        let faults = &world.script.faults;
        let faults = Faults { seed: faults.seed.wrapping_add(part), ..*faults };
        Arc::new(Person {
            world: world.clone(),
            number,
            way: Faulty::new(line, faults),
            journal: Mutex::default(),
            random: Mutex::new(world.random(part * 2 + 1)),
        })
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn random(&self) -> MutexGuard<'_, Random> {
        self.random.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, what: std::fmt::Arguments<'_>) {
        let now_us = self.world.simulation.now_us();
        self.world.trace.line(now_us, &session_name(self.number), what);
    }

    async fn nap(&self, ms: u64) {
        self.world.simulation.sleep(Duration::from_millis(ms)).await;
    }

    /// Stops the faults of the network.
    pub fn become_calm(&self) {
        self.way.set(Faults::default());
    }

    /// Delivers the messages in transit. Returns how many.
    pub async fn settle(&self) -> usize {
        self.way.deliver_delayed().await
    }

    fn is_calm(&self) -> bool {
        // SeqCst for simplicity, here and below: the simulation has one thread.
        self.world.calm.load(Ordering::SeqCst)
    }

    /// Runs one incarnation after the other.
    pub async fn live(self: Arc<Person>) {
        loop {
            let machine = Machine::new(&self.world.simulation);
            let life = {
                let mut journal = self.journal();
                journal.lives += 1;
                journal.lives
            };
            let work: Part<'_> = Box::pin(self.work(&machine, life));
            let crash: Part<'_> = Box::pin(self.crash());
            crowd::either(work, crash).await;
            machine.crash();
            self.say(format_args!("crashes"));
            self.world.book.count(|tally| tally.crashes += 1);
            let pause = self.random().below(300);
            self.nap(pause).await;
        }
    }

    /// Ends when this incarnation crashes; most never do.
    async fn crash(&self) {
        let often = self.world.script.crashes * 8;
        let (falls, after) = {
            let mut random = self.random();
            (random.chance(often), 5 + random.below(800))
        };
        self.nap(after).await;
        if !falls || self.is_calm() || self.journal().is_done {
            std::future::pending::<()>().await;
        }
    }

    fn settings(&self, life: u64) -> Settings {
        let script = &self.world.script;
        // The settings have one more field if faults can be injected into the client.
        #[allow(clippy::needless_update)]
        let settings = Settings {
            window: script.window,
            deadline: Some(script.deadline),
            attempt: Duration::from_millis(200),
            first_pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(100),
            // A client without keep-alives is silent between requests.
            keeps_alive: !script.silences,
            seed: Some(script.seed ^ (self.number as u64) << 8 ^ life),
            ..Settings::default()
        };
        #[cfg(feature = "planted")]
        let settings = Settings { injected_fault: script.planted, ..settings };
        settings
    }

    async fn work(&self, machine: &Arc<Machine>, life: u64) {
        let client = match Client::on(self.way.clone(), self.settings(life), machine.clone()) {
            Ok(client) => client,
            Err(error) => return self.world.book.wrong(format!("no client: {error}")),
        };
        let (session, left) = self.open(&client).await;
        let listening: Part<'_> = Box::pin(self.listen(&session, life));
        let asking: Part<'_> = Box::pin(self.ask_all(&session, left));
        crowd::all(vec![listening, asking]).await;
    }

    fn options(&self) -> SessionOptions {
        SessionOptions::new().name(&session_name(self.number)).lease(self.world.script.lease)
    }

    /// Opens or resumes the session, with the unanswered requests.
    async fn open(&self, client: &Client) -> (AsyncSession, Vec<(u64, Request)>) {
        loop {
            let (epoch, left) = self.take_left();
            self.say(format_args!("opens, epoch {epoch}, {} left", left.len()));
            let transactions =
                left.iter().map(|(number, of)| (*number, of.transaction.clone())).collect();
            let opened = match epoch {
                0 => client.open_async(self.options()).await.map(|session| (session, Vec::new())),
                _ => client.resume_async(self.options(), epoch, transactions).await,
            };
            match opened {
                Ok((session, requests)) => return self.go_on(session, requests, &left),
                Err(error) => self.lose(&left, &error),
            }
            self.nap(10).await;
        }
    }

    /// Returns the unanswered requests of the last epoch. The outcome of older ones is unknown.
    fn take_left(&self) -> (Stamp, BTreeMap<u64, Written>) {
        let (epoch, open) = {
            let mut journal = self.journal();
            (journal.epoch, std::mem::take(&mut journal.open))
        };
        let mut left = BTreeMap::new();
        for ((of, number), written) in open {
            if of == epoch {
                drop(left.insert(number, written))
            } else {
                self.tell(written.id, &Err(forgotten()))
            }
        }
        // Kept in the journal, because the next crash may come before their outcome is known.
        let entries = left.iter().map(|(number, written)| ((epoch, *number), written.clone()));
        self.journal().open.extend(entries);
        (epoch, left)
    }

    /// Handles a failed opening: the owner of the session is unknown, so the outcome of its requests is
    /// unknown.
    fn lose(&self, left: &BTreeMap<u64, Written>, error: &Error) {
        self.say(format_args!("cannot open: {}", error.code().name()));
        {
            let mut journal = self.journal();
            journal.epoch = 0;
            journal.open.clear();
        }
        left.values().for_each(|written| self.tell(written.id, &Err(forgotten())));
    }

    fn go_on(
        &self,
        session: AsyncSession,
        requests: Vec<Request>,
        left: &BTreeMap<u64, Written>,
    ) -> (AsyncSession, Vec<(u64, Request)>) {
        let mut journal = self.journal();
        journal.epoch = session.epoch();
        journal.open.clear();
        let mut goes_on = Vec::new();
        for request in requests {
            let Some(written) = left.get(&request.number()) else { continue };
            journal.open.insert((request.epoch(), request.number()), written.clone());
            goes_on.push((written.id, request));
        }
        drop(journal);
        self.say(format_args!("has its session, epoch {}", session.epoch()));
        (session, goes_on)
    }

    /// Sends all requests with several concurrent tasks.
    async fn ask_all(&self, session: &AsyncSession, left: Vec<(u64, Request)>) {
        let mut parts: Vec<Part<'_>> = Vec::new();
        for (id, request) in left {
            parts.push(Box::pin(async move { self.wait_for(id, &request).await }));
        }
        for _ in 0..self.world.script.tasks {
            parts.push(Box::pin(self.ask_some(session)));
        }
        crowd::all(parts).await;
        if !std::mem::replace(&mut self.journal().is_done, true) {
            self.say(format_args!("has asked for everything"));
            self.world.busy.fetch_sub(1, Ordering::SeqCst);
        }
    }

    async fn ask_some(&self, session: &AsyncSession) {
        while let Some(operation) = self.next_operation() {
            self.pause().await;
            if !session.is_live() {
                self.world.book.count(|tally| tally.reopened += 1);
                let reopened = session.reopen().await;
                self.say(format_args!("reopens: {}", reopened.is_ok()));
            }
            self.ask(session, operation).await;
        }
    }

    fn next_operation(&self) -> Option<Operation> {
        let script = &self.world.script;
        let place = {
            let mut journal = self.journal();
            if journal.asked == script.requests {
                return None;
            }
            journal.asked += 1;
            journal.asked
        };
        let id = self.number as u64 * script.requests + place;
        let mut random = self.random();
        Some(Operation::by_chance(id, script.clients, script.loose, &mut random))
    }

    async fn pause(&self) {
        let script = &self.world.script;
        let (silent, ms) = {
            let mut random = self.random();
            (script.silences && random.chance(12), random.below(25))
        };
        if silent {
            self.nap(script.lease.as_millis() as u64 + ms).await
        } else {
            self.nap(ms).await
        }
    }

    async fn ask(&self, session: &AsyncSession, operation: Operation) {
        let id = operation.id;
        let transaction = match operation.transaction() {
            Ok(transaction) => transaction,
            Err(error) => return self.world.book.wrong(format!("no transaction: {error}")),
        };
        self.say(format_args!("asks for {operation:?}"));
        self.world.book.ask(operation);
        match session.request(transaction.clone()).await {
            Err(error) => self.tell(id, &Err(error)),
            Ok(request) => {
                {
                    let mut journal = self.journal();
                    journal.epoch = journal.epoch.max(request.epoch());
                    let place = (request.epoch(), request.number());
                    journal.open.insert(place, Written { id, transaction });
                }
                self.wait_for(id, &request).await;
            }
        }
    }

    async fn wait_for(&self, id: u64, request: &Request) {
        let mut answer = request.answer().await;
        for _ in 0..PATIENCE {
            let unknown =
                answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::UnknownOutcome);
            if !unknown || self.random().chance(50) {
                break;
            }
            match request.answer().await {
                // The request was already completed, so the earlier answer is final.
                Err(error) if error.kind() == ErrorKind::Invalid => break,
                next => answer = next,
            }
        }
        self.journal().open.remove(&(request.epoch(), request.number()));
        self.tell(id, &answer);
    }

    fn tell(&self, id: u64, answer: &Result<Receipt>) {
        let told = self.world.book.tell(id, answer);
        self.say(format_args!("is told of op{id}: {told:?}"));
    }

    async fn listen(&self, session: &AsyncSession, life: u64) {
        if let Err(error) =
            session.listen(|letter| std::future::ready(self.handle(session, life, &letter))).await
        {
            self.world.book.wrong(format!("listening ended: {error}"));
        }
    }

    fn handle(&self, session: &AsyncSession, life: u64, letter: &ServerMessage) -> Result<()> {
        if self.random().chance(10) {
            return Err(Error::new(Code::Io, "the handler fails, as it was told"));
        }
        let id = std::str::from_utf8(&letter.payload).ok().and_then(|id| id.parse().ok());
        let opened = session.info().map_or(0, |info| info.opened);
        self.say(format_args!("handles letter {} of op{id:?}", letter.number));
        let client = self.number;
        let number = letter.number;
        let id = id.unwrap_or(0);
        self.world.book.handle(Handled { client, life, opened, number, id });
        Ok(())
    }
}

fn forgotten() -> Error {
    Error::new(Code::UnknownOutcome, "it was left in an epoch before the last one")
}

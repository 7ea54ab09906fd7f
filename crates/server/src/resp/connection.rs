//! Connections: bytes in, requests in order, replies in the same order, bytes out.
//!
//! ```text
//!   bytes -> [ input: only what is incomplete ] -> request -> session
//!                                                    |  a reply, or a debt that the batch will pay
//!   bytes <- [ output: only what a slow reader leaves ] <- debts, first to last
//! ```

use super::deadlines::Step;
use super::feeds::{Awaited, Reading};
use super::login::Login;
use super::reply::{Encoded, Reply};
use super::request::{Malformed, Parsed, Parser, Words, encode};
use super::room::{Holding, Share};
use super::session::{Handled, Job, Owed, Pending, Session, Written};
use super::shared::Seat;
use super::slow_log::Told;
use super::stalls::{Stalled, Stalls};
use super::stream::Stream;
use super::table::Group;
use super::tasks::{Kept, Task};
use super::{Settings, Shared};
use crate::memory::Exceeded;
use crate::security::Verdict;
use mainstay::{Receipt, Transaction};
use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

/// How many reads of one connection wait behind its writes in one batch: their values are held, too.
const READS_BEHIND_WRITES: usize = 32;
/// And nothing more waits once the answers to it are so large, as far as that can be known before.
const BYTES_BEHIND_WRITES: usize = 1 << 20;
/// After so many requests it is looked whether the turn has had its time.
const TIMED_REQUESTS: usize = 8;
/// Buffers larger than this are given back when they are empty.
const KEPT_BYTES: usize = 4 << 10;

/// A reply that is not written yet.
enum Debt {
    Reply(Reply),
    /// The next transaction of the connection in the batch pays it.
    Batch(Owed, Told, Group),
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing: it may go on.
    Open,
    /// The batch has to be done first.
    Paused,
    /// Work that somebody else does.
    Resting,
    /// What is owed is sent, then it is over.
    Closing,
}

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client has closed it, or is gone.
    HungUp,
    /// The client asked for it.
    Asked,
    /// What it sent could not be read on.
    Malformed,
    /// It did not read what it was sent.
    SlowReader,
    /// The server stops.
    Stopped,
}

/// What a connection wants done by others.
pub enum Wish {
    /// Long work.
    Work(Job),
    /// Credentials to be verified.
    Login(Box<Login>),
    /// A reply when there are changes.
    Wait(Awaited),
    /// A push for every change.
    Watch(Box<Reading>),
    /// A task, which is to be begun.
    Task(Task),
}

/// A client's connection.
pub struct Connection {
    stream: Stream,
    /// What it has said so far.
    pub session: Session,
    parser: Parser,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    debts: VecDeque<Debt>,
    /// What the batch may answer it, in bytes.
    behind_bytes: usize,
    /// Until when it has to say who it is.
    pub login_due_us: u64,
    /// What it has put into the database in the batch.
    written: Written,
    /// The memory of its transactions in the batch.
    batched_bytes: usize,
    /// The memory of a request that a worker plans.
    away_bytes: usize,
    /// How long it waits because its user has sent much, and whether the loop knows of it.
    paced: Option<Duration>,
    waits_for_pace: bool,
    /// Its part of the memory that all share.
    share: Share,
    /// The deadlines of the things that it has begun.
    pub stalls: Stalls,
    _seat: Seat,
    /// Its last request, in case that was slow.
    told: Told,
    /// Why it is over, when it is.
    ending: Ending,
    /// What it waits for.
    pub state: State,
    /// There may be more to read.
    readable: bool,
    /// The client has closed its side: reading comes to an end that no further event tells of.
    hung_up: bool,
    /// When that was; the end of time while it has not.
    hung_up_us: Arc<AtomicU64>,
    /// When the requests of this turn have had their time.
    turn_ends_us: u64,
    /// Requests were left that could have been taken.
    left_over: bool,
    /// It waits for changes or for what others do, which may never come.
    waits: bool,
    /// What it is at, and how the loop is told to go on with it.
    task: Option<Kept>,
    waker: Option<Waker>,
    /// It closes, and has limited time for that.
    leaving: bool,
    /// The client is gone, or is told nothing more.
    is_cut: bool,
    /// What it had to be told when that was last looked at.
    left_bytes: usize,
    /// It is on the list for this turn.
    pub listed: bool,
}

impl Connection {
    /// One that has just come.
    pub fn new(stream: Stream, shared: &Arc<Shared>, peer: String, seat: Seat) -> Connection {
        let session = Session::new(shared, peer);
        session.tell_of_itself();
        Connection {
            stream,
            parser: Parser::default(),
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            debts: VecDeque::new(),
            behind_bytes: 0,
            login_due_us: 0,
            written: Written::default(),
            batched_bytes: 0,
            away_bytes: 0,
            paced: None,
            waits_for_pace: false,
            share: Share::new(&session.account),
            session,
            stalls: Stalls::default(),
            _seat: seat,
            told: Told::default(),
            ending: Ending::HungUp,
            state: State::Open,
            readable: true,
            hung_up: false,
            hung_up_us: Arc::new(AtomicU64::new(u64::MAX)),
            turn_ends_us: 0,
            left_over: false,
            waits: false,
            task: None,
            waker: None,
            leaving: false,
            is_cut: false,
            left_bytes: 0,
            listed: false,
        }
    }

    fn settings(&self) -> &Settings {
        &self.session.shared.settings
    }

    /// Its socket, to be registered.
    pub fn socket(&mut self) -> &mut TcpStream {
        self.stream.socket()
    }

    /// Whether it has done what it had limited time for.
    pub fn has_done(&self, step: Step) -> bool {
        match step {
            Step::Handshake => self.stream.is_ready(),
            Step::Login => self.session.user.is_some(),
            // It is gone when it has.
            Step::Goodbye => false,
            // They are looked at when the time is there.
            Step::Reading | Step::Request | Step::Transaction | Step::Pace => false,
        }
    }

    /// Whether it has taken something of what it is told since this was last asked.
    pub fn takes_its_time(&mut self) -> bool {
        let left = self.output.len() - self.sent;
        std::mem::replace(&mut self.left_bytes, left) > left
    }

    /// Notes an event: there is something to read, or the client has closed its side.
    pub fn note(&mut self, readable: bool, hung_up: bool) {
        if hung_up && !self.hung_up {
            self.hung_up = true;
            self.hung_up_us.store(self.session.shared.ticks_us(), Ordering::Relaxed);
        }
        self.readable |= readable || hung_up;
    }

    /// Whether requests may be taken.
    fn may_go_on(&self) -> bool {
        self.state == State::Open && self.output.len() - self.sent < self.settings().unsent_bytes
    }

    /// Whether there is something to do that no event will tell of.
    pub fn has_more(&self) -> bool {
        self.paced.is_none() && self.may_go_on() && (self.readable || self.left_over)
    }

    /// Whether all that has come is taken.
    pub fn has_nothing(&self) -> bool {
        self.state == State::Open && !self.readable && !self.left_over
    }

    /// Takes requests for about so long and puts what they come to into the batch. Gives what others have to do.
    pub fn take_requests(
        &mut self,
        slice_us: u64,
        buffer: &mut [u8],
        batch: &mut Vec<Transaction>,
    ) -> Option<Wish> {
        if self.is_paced() {
            return None;
        }
        let (mut left, mut bytes) = (self.settings().turn_requests, 0);
        self.turn_ends_us = self.session.shared.ticks_us().saturating_add(slice_us);
        let mut wish = self.consume(&[], &mut left, batch);
        while wish.is_none()
            && left > 0
            && bytes < self.settings().turn_bytes
            && self.readable
            && self.may_go_on()
        {
            match self.stream.read(buffer) {
                Ok(input) if input.is_end() => self.ends(),
                Ok(input) => {
                    bytes += input.taken;
                    self.session.tally.received(input.taken);
                    self.session.take_bytes(input.taken);
                    self.readable = input.more || self.hung_up;
                    wish = self.consume(input.bytes, &mut left, batch);
                    // A request of many words takes its time before it is complete.
                    if self.readable && self.is_turn_over() {
                        left = 0;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.ends(),
            }
        }
        self.fit();
        wish
    }

    /// Whether its user has sent so much that others come first for a while.
    fn is_paced(&mut self) -> bool {
        let goes_on = self.state == State::Open && !self.hung_up && self.session.shared.waits();
        self.paced = if goes_on { self.session.pace() } else { None };
        self.paced.is_some()
    }

    /// How long it has to wait until more is taken; only once for each wait.
    pub fn begins_to_wait(&mut self) -> Option<Duration> {
        self.paced.filter(|_| !std::mem::replace(&mut self.waits_for_pace, true))
    }

    /// The wait is over.
    pub fn ends_wait(&mut self) {
        (self.paced, self.waits_for_pace) = (None, false);
    }

    /// The memory that it holds, by kind.
    fn holding(&self) -> Holding {
        let words = self.parser.held_bytes() + self.input.capacity();
        Holding {
            requests: words + self.batched_bytes + self.away_bytes,
            replies: self.output.capacity(),
            queued: self.session.gathered_bytes(),
            transaction: self.session.open.as_ref().map_or(0, |open| open.held_bytes()),
        }
    }

    /// Counts the memory that it holds; fails where that is too much.
    fn reserve(&mut self) -> Result<(), Exceeded> {
        let holding = self.holding();
        self.share.holds(&self.session.account, holding)
    }

    /// Beyond a limit it gives up its unfinished transaction, else the connection is closed.
    fn fit(&mut self) {
        let Err(exceeded) = self.reserve() else { return };
        // It reads nothing more before the worker is done; then it is looked at again.
        if self.session.is_at_worker() {
            return;
        }
        if self.session.give_up_gathered(&exceeded) && self.reserve().is_ok() {
            return;
        }
        let in_mid_reply = self.sent < self.output.len() || self.owes();
        (self.input, self.output, self.sent) = (Vec::new(), Vec::new(), 0);
        self.session.multi = None;
        self.debts.clear();
        if !in_mid_reply {
            self.write(&Reply::error(format!("UNAVAILABLE {exceeded}: connect again later")));
        }
        self.ends();
    }

    /// The client says nothing more.
    fn ends(&mut self) {
        self.readable = false;
        self.state = State::Closing;
    }

    /// Takes the requests in what was kept and what has come; keeps what is left.
    fn consume(
        &mut self,
        fresh: &[u8],
        left: &mut usize,
        batch: &mut Vec<Transaction>,
    ) -> Option<Wish> {
        if self.input.is_empty() {
            let (used, wish) = self.requests(fresh, left, batch);
            self.input.extend_from_slice(&fresh[used..]);
            return wish;
        }
        self.input.extend_from_slice(fresh);
        let mut input = std::mem::take(&mut self.input);
        let (used, wish) = self.requests(&input, left, batch);
        match used == input.len() {
            true => input = Vec::new(),
            false => drop(input.drain(..used)),
        }
        self.input = input;
        wish
    }

    fn requests(
        &mut self,
        bytes: &[u8],
        left: &mut usize,
        batch: &mut Vec<Transaction>,
    ) -> (usize, Option<Wish>) {
        let mut used = 0;
        self.left_over = false;
        while *left > 0 && self.may_go_on() && used < bytes.len() {
            let limits = self.session.limits();
            let parsed = self.parser.next(&bytes[used..], limits);
            let (wish, taken) = match parsed {
                Ok(Parsed::Incomplete) => return (used, None),
                Ok(Parsed::Unfinished) if self.is_turn_over() => {
                    *left = 0;
                    break;
                }
                Ok(Parsed::Unfinished) => continue,
                Ok(Parsed::Request(words, taken)) if self.session.is_long(&words, taken) => {
                    (self.send_away(&words, &bytes[used..used + taken], batch), taken)
                }
                Ok(Parsed::Request(words, taken)) => (self.request(&words, batch), taken),
                Ok(Parsed::Line(words, taken)) => {
                    let words: Words<'_> = words.iter().map(Vec::as_slice).collect();
                    let wish = if self.session.is_long(&words, taken) {
                        self.send_away(&words, &encode(&words), batch)
                    } else {
                        self.request(&words, batch)
                    };
                    (wish, taken)
                }
                Err(malformed) => {
                    self.refuse(&malformed);
                    return (bytes.len(), None);
                }
            };
            if self.state == State::Paused {
                // It is asked again when the batch is done.
                break;
            }
            used += taken;
            *left -= 1;
            self.stalls.took_request();
            let is_timed = left.is_multiple_of(TIMED_REQUESTS) || self.output.len() > KEPT_BYTES;
            if is_timed && self.is_turn_over() {
                *left = 0;
            }
            if wish.is_some() {
                self.left_over = used < bytes.len();
                return (used, wish);
            }
        }
        self.left_over = used < bytes.len();
        (used, None)
    }

    /// Has a worker plan and execute a long request.
    fn send_away(
        &mut self,
        words: &[&[u8]],
        bytes: &[u8],
        batch: &mut Vec<Transaction>,
    ) -> Option<Wish> {
        if self.owes() {
            self.state = State::Paused;
            return None;
        }
        self.told = Told::of(words);
        self.away_bytes = bytes.len();
        if let Err(exceeded) = self.reserve()
            && self.session.give_up_gathered(&exceeded)
        {
            // Nothing of it is left, so that it is soon answered here.
            self.away_bytes = 0;
            return self.request(words, batch);
        }
        let Holding { queued, transaction, .. } = self.holding();
        self.away_bytes += queued + transaction;
        let job = self.session.answer_away(words, bytes.to_vec());
        self.rest(Wish::Work(job))
    }

    fn is_turn_over(&self) -> bool {
        self.session.shared.ticks_us() >= self.turn_ends_us
    }

    fn request(&mut self, words: &[&[u8]], batch: &mut Vec<Transaction>) -> Option<Wish> {
        if words.is_empty() {
            return None;
        }
        let pending = match self.debts.len() {
            0 => Pending::Nothing,
            _ if self.behind_bytes >= BYTES_BEHIND_WRITES => Pending::Full,
            debts if debts < READS_BEHIND_WRITES => Pending::Some,
            _ => Pending::Many,
        };
        if self.session.shared.slow_log.is_on() {
            self.told = Told::of(words);
        }
        match self.session.handle(words, pending) {
            Handled::Reply(reply) => {
                self.session.tally.answered(self.session.group());
                self.owe(Debt::Reply(reply));
            }
            Handled::Run(transaction, owed) => {
                self.written.add(words);
                self.session.batch_bytes = self.written.all_bytes;
                self.batched_bytes += transaction.weight_bytes();
                let weight = self.session.weigh(&transaction, self.written);
                self.behind_bytes = self.behind_bytes.saturating_add(weight);
                self.debts.push_back(Debt::Batch(owed, self.told, self.session.group()));
                batch.push(*transaction);
            }
            Handled::NotYet => self.state = State::Paused,
            Handled::Close(reply) => {
                self.owe(Debt::Reply(reply));
                self.closes(Ending::Asked);
            }
            Handled::Slow(job) => return self.rest(Wish::Work(job)),
            Handled::Login(login) => return self.rest(Wish::Login(login)),
            Handled::Wait(reading) => return self.rest(Wish::Wait(reading)),
            Handled::Task(task) => return self.rest(Wish::Task(task)),
            Handled::Watch(reading) => {
                self.owe(Debt::Reply(super::reply::OK));
                return Some(Wish::Watch(reading));
            }
        }
        None
    }

    fn rest(&mut self, wish: Wish) -> Option<Wish> {
        self.state = State::Resting;
        // What is only being looked through comes, whoever waits for it.
        self.waits = match &wish {
            Wish::Wait(awaited) => !awaited.is_at_it(),
            Wish::Task(task) => task.waits(),
            _ => false,
        };
        Some(wish)
    }

    /// Whether it has just begun to close and has not taken all that it is told.
    pub fn begins_to_leave(&mut self) -> bool {
        let leaves = self.state == State::Closing && !self.owes();
        let begins = leaves && !std::mem::replace(&mut self.leaving, true);
        if begins {
            self.left_bytes = self.output.len() - self.sent;
        }
        begins
    }

    /// Whether it waits for changes and the client is gone: nobody would be told of them. Who has
    /// closed only its own side counts as gone, as with Redis, but is sent what came before.
    pub fn waits_for_nobody(&self) -> bool {
        let is_sent = self.sent == self.output.len();
        self.state == State::Resting && self.waits && self.hung_up && is_sent
    }

    /// A reply that comes behind all that is owed.
    fn owe(&mut self, debt: Debt) {
        match debt {
            Debt::Reply(reply) if self.debts.is_empty() => self.write(&reply),
            debt => self.debts.push_back(debt),
        }
    }

    /// What is owed is sent, then it is over.
    pub fn closes(&mut self, why: Ending) {
        self.state = State::Closing;
        self.ending = why;
    }

    /// Why it is over.
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// Its last request.
    pub fn told(&self) -> Told {
        self.told
    }

    /// The requests that wait for the batch.
    pub fn waiting(&self) -> impl Iterator<Item = Told> {
        self.debts.iter().filter_map(|debt| match debt {
            Debt::Batch(_, told, _) => Some(*told),
            Debt::Reply(_) => None,
        })
    }

    fn write(&mut self, reply: &Reply) {
        if self.is_cut {
            return;
        }
        self.session.tally.reply(reply);
        reply.write(self.session.protocol, &mut self.output);
    }

    /// Says whether nobody waits any more for work that is done for it: it is gone, or has closed its side for longer than
    /// it may take to read the end.
    pub fn is_given_up(&self) -> impl Fn() -> bool + Send + use<> {
        let (shared, alive) = (self.session.shared.clone(), self.session.alive.clone());
        let hung_up_us = self.hung_up_us.clone();
        let patience_us = self.settings().drain_limit_ms.saturating_mul(1000);
        move || {
            let until_us = hung_up_us.load(Ordering::Relaxed).saturating_add(patience_us);
            !alive.load(Ordering::Acquire) || shared.ticks_us() > until_us
        }
    }

    /// The reply of work that somebody else did.
    pub fn wake(&mut self, reply: &Reply) {
        self.write(reply);
        self.go_on_behind();
    }

    /// The same where the reply was encoded elsewhere.
    pub fn wake_with(&mut self, reply: Encoded) {
        reply.error.iter().for_each(|error| self.session.tally.reply(error));
        if self.output.is_empty() {
            self.output = reply.bytes;
        } else {
            self.output.extend_from_slice(&reply.bytes);
        }
        self.go_on_behind();
    }

    /// Takes requests again, behind the one that it rested for.
    fn go_on_behind(&mut self) {
        self.session.take_back();
        self.away_bytes = 0;
        if self.state == State::Resting {
            self.state = State::Open;
        }
    }

    /// Keeps a task, with which [`Connection::go_on`] goes on.
    pub fn keep(&mut self, task: Task, waker: impl FnOnce() -> Waker) {
        self.waker.get_or_insert_with(waker);
        self.task = Some(Kept::new(task, &self.session, self.told));
    }

    /// Goes on with its task as far as that can be done now.
    pub fn go_on(&mut self) {
        let (Some(task), Some(waker)) = (&mut self.task, &self.waker) else { return };
        if let Some(reply) = task.go_on(&self.session, waker) {
            self.task = None;
            self.wake(&reply);
        }
    }

    /// Waits no longer for what others do.
    pub fn give_up(&mut self) {
        if let Some(reply) = self.task.as_ref().and_then(Kept::in_vain).cloned() {
            self.task = None;
            self.wake(&reply);
        }
    }

    /// What became of a login.
    pub fn logged_in(&mut self, login: Login, verdict: Verdict) {
        match self.session.settle(login, verdict) {
            Handled::Reply(reply) => self.wake(&reply),
            Handled::Close(reply) => self.close(&reply),
            _ => self.close(&Reply::error("ERR a login waits for itself: a fault of the server")),
        }
    }

    /// Says the last word.
    pub fn close(&mut self, reply: &Reply) {
        self.write(reply);
        self.state = State::Closing;
    }

    /// What comes unasked: each row as a push of its own.
    pub fn push(&mut self, reply: Reply) {
        // Why there is no more is no answer to a command either.
        let rows = match reply {
            Reply::Array(rows) => rows,
            reply => vec![reply],
        };
        for row in rows {
            self.write(&Reply::Push(vec![Reply::text("feed"), row]));
        }
    }

    /// What cannot be read on is told why, and closed.
    fn refuse(&mut self, malformed: &Malformed) {
        self.owe(Debt::Reply(Reply::error(malformed.to_string())));
        self.closes(Ending::Malformed);
    }

    /// Pays what is owed, from the receipts of its transactions in the batch, which took so long.
    pub fn pay(
        &mut self,
        mut receipts: impl Iterator<Item = mainstay::Result<Receipt>>,
        took_us: u64,
    ) {
        (self.behind_bytes, self.written) = (0, Written::default());
        self.session.batch_bytes = 0;
        self.batched_bytes = 0;
        while let Some(debt) = self.debts.pop_front() {
            let reply = match debt {
                Debt::Reply(reply) => reply,
                Debt::Batch(owed, _, group) => {
                    self.session.tally.took(group, took_us);
                    match receipts.next() {
                        Some(receipt) => owed.reply(receipt),
                        None => Reply::error("ERR the batch lost an answer: a fault of the server"),
                    }
                }
            };
            self.write(&reply);
        }
        if self.state == State::Paused {
            self.state = State::Open;
        }
    }

    /// Neither takes nor sends anything more.
    pub fn cut(&mut self) {
        self.ends();
        self.is_cut = true;
        (self.output, self.sent) = (Vec::new(), 0);
        // It has shrunk, and that always fits.
        let _ = self.reserve();
    }

    /// Whether replies wait for the batch.
    pub fn owes(&self) -> bool {
        !self.debts.is_empty()
    }

    /// Whether what is unsent may wait for a reader; else it is cut.
    fn may_wait(&mut self) -> bool {
        let unsent = self.output.len() - self.sent;
        let waits = unsent <= self.settings().output_bytes && self.reserve().is_ok();
        if !waits {
            self.ending = Ending::SlowReader;
        }
        waits
    }

    /// Whether nothing of it is unsent, half read or open.
    pub fn is_idle(&self) -> bool {
        self.output.is_empty() && self.input.is_empty() && self.session.open.is_none()
    }

    /// The things that it has begun and that have no deadline yet, with their microseconds.
    pub fn begun(&mut self) -> impl Iterator<Item = (Step, u64)> + use<> {
        let is_unsent = self.sent < self.output.len();
        let is_incomplete = self.awaits_rest();
        let left = self.session.open.as_ref().and_then(|open| open.time_left());
        let settings = &self.session.shared.settings;
        self.stalls.begun(
            is_unsent.then_some(settings.write_limit_ms),
            is_incomplete.then_some(settings.request_limit_ms),
            left,
        )
    }

    /// Whether it waits for the rest of a request, and nothing else keeps it from being read.
    fn awaits_rest(&self) -> bool {
        let awaits = !self.input.is_empty() && !self.left_over && !self.readable;
        // An error would come before the replies that are owed.
        awaits && self.may_go_on() && !self.owes()
    }

    /// A deadline is reached. Says how the connection stalled; nothing when it went on.
    pub fn stalled(&mut self, step: Step) -> Option<Stalled> {
        match step {
            Step::Reading => {
                let unsent = self.output.len() - self.sent;
                self.stalls.took_nothing(unsent).then(|| {
                    self.ending = Ending::SlowReader;
                    Stalled::Reader
                })
            }
            Step::Request => {
                let awaits = self.awaits_rest();
                self.stalls.is_same_request(awaits).then_some(Stalled::Request)
            }
            Step::Transaction => {
                self.stalls.look_at_transaction();
                if let Some(open) = &mut self.session.open {
                    open.give_up_if_expired();
                }
                // It holds less now, and that always fits.
                let _ = self.reserve();
                None
            }
            _ => None,
        }
    }

    /// Sends what can be sent; false when the connection is over.
    pub fn send(&mut self) -> bool {
        if self.is_cut {
            return false;
        }
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => return false,
                Ok(count) => {
                    self.sent += count;
                    self.stalls.sent(count);
                    self.session.tally.sent(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.may_wait(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        self.sent = 0;
        match self.output.capacity() > KEPT_BYTES {
            true => self.output = Vec::new(),
            false => self.output.clear(),
        }
        // It has shrunk, and that always fits.
        let _ = self.reserve();
        self.flush()
    }

    /// Sends what the stream itself holds, and the goodbye when all is said; false when the connection is
    /// over.
    fn flush(&mut self) -> bool {
        let is_over = self.state == State::Closing && !self.owes();
        if is_over {
            self.stream.say_goodbye();
        }
        match self.stream.flush() {
            Ok(()) => !is_over,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

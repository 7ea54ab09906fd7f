//! A client connection: buffers input, executes requests in order, and sends the replies in the same order.
//!
//! ```text
//!   bytes -> [ input: only incomplete requests ] -> request -> session
//!                                                    |  a reply, or a queued reply that the batch completes
//!   bytes <- [ output: only bytes a slow reader left ] <- queued replies, first to last
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

/// The most queued replies of a connection in a batch with which a read still joins the batch. The limit
/// exists because the values that reads return are held in memory too.
const READS_BEHIND_WRITES: usize = 32;
/// The most estimated reply bytes queued in a batch. Beyond this, no further request joins it.
const BYTES_BEHIND_WRITES: usize = 1 << 20;
/// The connection checks the time of its turn each time it has handled this many requests.
const TIMED_REQUESTS: usize = 8;
/// Empty buffers with more capacity than this are freed.
const KEPT_BYTES: usize = 4 << 10;

/// A queued reply, not written to the output yet.
enum Debt {
    Reply(Reply),
    /// Completed by the receipt of the connection's next transaction in the batch.
    Batch(Owed, Told, Group),
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Ready for the next request.
    Open,
    /// The next request has to wait for the batch.
    Paused,
    /// Suspended: another thread or task is doing its work.
    Resting,
    /// Closing: pending replies are sent, then the connection is closed.
    Closing,
}

/// The reason why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client closed the connection or disappeared.
    HungUp,
    /// The client asked to close it.
    Asked,
    /// The client sent a malformed request, after which the input cannot be parsed.
    Malformed,
    /// The client did not read its replies.
    SlowReader,
    /// The server stops.
    Stopped,
}

/// Asynchronous work that a connection asks the event loop to start.
pub enum Wish {
    /// Long work for a worker thread.
    Work(Job),
    /// Credentials to verify.
    Login(Box<Login>),
    /// A blocking read, answered once.
    Wait(Awaited),
    /// A subscription: one push per change.
    Watch(Box<Reading>),
    /// A task to start.
    Task(Task),
}

pub struct Connection {
    stream: Stream,
    pub session: Session,
    parser: Parser,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    debts: VecDeque<Debt>,
    /// Estimated size of the replies that the batch will give this connection, in bytes.
    behind_bytes: usize,
    /// The login deadline.
    pub login_due_us: u64,
    /// Sizes of the words that this connection has written in the current batch.
    written: Written,
    /// Memory of its transactions in the batch.
    batched_bytes: usize,
    /// Memory of a request that a worker handles.
    away_bytes: usize,
    /// Throttling delay because its user has sent much, and whether the loop has set a deadline for its
    /// end.
    paced: Option<Duration>,
    waits_for_pace: bool,
    /// Its reservations in the shared memory budget.
    share: Share,
    /// Deadlines and progress of reads, requests and transactions in progress.
    pub stalls: Stalls,
    _seat: Seat,
    /// Summary of its last request, for the slow log.
    told: Told,
    ending: Ending,
    pub state: State,
    /// True if the socket may have more bytes.
    readable: bool,
    /// True if the client has closed its side. Reading must then go on to the end, for which no further
    /// event comes.
    hung_up: bool,
    /// Time of the hang-up, `u64::MAX` before.
    hung_up_us: Arc<AtomicU64>,
    /// Time at which the slice of this turn ends.
    turn_ends_us: u64,
    /// True if complete requests were left in the input.
    left_over: bool,
    /// True if it is suspended until an event that may never happen, such as a change or an action of
    /// another client.
    waits: bool,
    /// Its running task, and the waker that makes the loop poll the task again.
    task: Option<Kept>,
    waker: Option<Waker>,
    /// True while it closes and has a close deadline.
    leaving: bool,
    /// True if nothing more is sent: the client is gone or the connection was aborted.
    is_cut: bool,
    /// Number of unsent bytes at the last check of the close deadline.
    left_bytes: usize,
    /// True if it is in the loop's ready queue.
    pub listed: bool,
}

impl Connection {
    /// Creates the state of a newly accepted connection.
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

    pub fn socket(&mut self) -> &mut TcpStream {
        self.stream.socket()
    }

    /// Returns whether the connection has completed the step that had a deadline.
    pub fn has_done(&self, step: Step) -> bool {
        match step {
            Step::Handshake => self.stream.is_ready(),
            Step::Login => self.session.user.is_some(),
            // A connection that has read its last replies is already removed.
            Step::Goodbye => false,
            // These steps are checked when their deadline is reached.
            Step::Reading | Step::Request | Step::Transaction | Step::Pace => false,
        }
    }

    /// Returns whether the client has read some bytes since the last call.
    pub fn takes_its_time(&mut self) -> bool {
        let left = self.output.len() - self.sent;
        std::mem::replace(&mut self.left_bytes, left) > left
    }

    /// Records a socket event: the socket is readable, or the client has closed its side.
    pub fn note(&mut self, readable: bool, hung_up: bool) {
        if hung_up && !self.hung_up {
            self.hung_up = true;
            self.hung_up_us.store(self.session.shared.ticks_us(), Ordering::Relaxed);
        }
        self.readable |= readable || hung_up;
    }

    /// Returns whether it can take another request: it is open and its output is not too large.
    fn may_go_on(&self) -> bool {
        self.state == State::Open && self.output.len() - self.sent < self.settings().unsent_bytes
    }

    /// Returns whether it has work for which no further event comes.
    pub fn has_more(&self) -> bool {
        self.paced.is_none() && self.may_go_on() && (self.readable || self.left_over)
    }

    /// Returns whether all received requests are handled.
    pub fn has_nothing(&self) -> bool {
        self.state == State::Open && !self.readable && !self.left_over
    }

    /// Takes requests for about `slice_us` microseconds and adds their transactions to the batch. Returns
    /// asynchronous work that the loop has to start.
    pub fn take_requests(
        &mut self,
        slice_us: u64,
        buffer: &mut [u8],
        batch: &mut Vec<Transaction>,
    ) -> Option<Wish> {
        if self.is_paced() {
            return None;
        }
        let mut left = self.settings().turn_requests;
        let mut bytes = 0;
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
                    // A request of many words can take long to parse before it is complete.
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

    /// Returns whether its user has sent so much that other users come first for a while.
    fn is_paced(&mut self) -> bool {
        let goes_on = self.state == State::Open && !self.hung_up && self.session.shared.waits();
        self.paced = if goes_on { self.session.pace() } else { None };
        self.paced.is_some()
    }

    /// Returns the throttling delay, once per delay.
    pub fn begins_to_wait(&mut self) -> Option<Duration> {
        self.paced.filter(|_| !std::mem::replace(&mut self.waits_for_pace, true))
    }

    /// Ends the throttling delay.
    pub fn ends_wait(&mut self) {
        self.paced = None;
        self.waits_for_pace = false;
    }

    /// Returns the memory that the connection holds, by kind.
    fn holding(&self) -> Holding {
        let words = self.parser.held_bytes() + self.input.capacity();
        Holding {
            requests: words + self.batched_bytes + self.away_bytes,
            replies: self.output.capacity(),
            queued: self.session.gathered_bytes(),
            transaction: self.session.open.as_ref().map_or(0, |open| open.held_bytes()),
        }
    }

    /// Reserves the memory that the connection holds. Fails if it exceeds a limit.
    fn reserve(&mut self) -> Result<(), Exceeded> {
        let holding = self.holding();
        self.share.holds(&self.session.account, holding)
    }

    /// Enforces the memory limits: aborts the unfinished transaction if that frees enough, otherwise closes
    /// the connection.
    fn fit(&mut self) {
        let Err(exceeded) = self.reserve() else { return };
        // It reads nothing more until the worker is done. The memory is checked again then.
        if self.session.is_at_worker() {
            return;
        }
        if self.session.give_up_gathered(&exceeded) && self.reserve().is_ok() {
            return;
        }
        let in_mid_reply = self.sent < self.output.len() || self.owes();
        self.input = Vec::new();
        self.output = Vec::new();
        self.sent = 0;
        self.session.multi = None;
        self.debts.clear();
        if !in_mid_reply {
            self.write(&Reply::error(format!("UNAVAILABLE {exceeded}: connect again later")));
        }
        self.ends();
    }

    /// Handles the end of the client's input.
    fn ends(&mut self) {
        self.readable = false;
        self.state = State::Closing;
    }

    /// Handles the requests in the buffered and the fresh input, and buffers an incomplete rest.
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
        if used == input.len() {
            input = Vec::new()
        } else {
            drop(input.drain(..used))
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
                // The request was not taken. It is handled again after the batch.
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

    /// Sends a long request to a worker, which plans and executes it.
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
            // The transaction was dropped, so the request is short enough for this thread.
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
        // A read of old log entries always comes to an end, so it does not count as waiting.
        self.waits = match &wish {
            Wish::Wait(awaited) => !awaited.is_at_it(),
            Wish::Task(task) => task.waits(),
            _ => false,
        };
        Some(wish)
    }

    /// Returns true once, when the connection starts to close and has no pending replies.
    pub fn begins_to_leave(&mut self) -> bool {
        let leaves = self.state == State::Closing && !self.owes();
        let begins = leaves && !std::mem::replace(&mut self.leaving, true);
        if begins {
            self.left_bytes = self.output.len() - self.sent;
        }
        begins
    }

    /// Returns whether it is suspended on an event and the client is gone, so no client would get the
    /// reply. As in Redis, a client that has closed only its own side counts as gone, but still gets the
    /// earlier replies.
    pub fn waits_for_nobody(&self) -> bool {
        let is_sent = self.sent == self.output.len();
        self.state == State::Resting && self.waits && self.hung_up && is_sent
    }

    /// Queues a reply behind all pending replies.
    fn owe(&mut self, debt: Debt) {
        match debt {
            Debt::Reply(reply) if self.debts.is_empty() => self.write(&reply),
            debt => self.debts.push_back(debt),
        }
    }

    /// Starts to close: pending replies are sent first.
    pub fn closes(&mut self, why: Ending) {
        self.state = State::Closing;
        self.ending = why;
    }

    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// Returns the summary of the last request.
    pub fn told(&self) -> Told {
        self.told
    }

    /// Returns the summaries of the requests that wait for the batch.
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

    /// Returns a function that tells whether work done for this connection can be abandoned. That is so if
    /// the client is gone, or has closed its side for longer than it may take to read the last replies.
    pub fn is_given_up(&self) -> impl Fn() -> bool + Send + use<> {
        let shared = self.session.shared.clone();
        let alive = self.session.alive.clone();
        let hung_up_us = self.hung_up_us.clone();
        let patience_us = self.settings().drain_limit_ms.saturating_mul(1000);
        move || {
            let until_us = hung_up_us.load(Ordering::Relaxed).saturating_add(patience_us);
            // Pairs with the `Release` store when the session is dropped or changes its user.
            !alive.load(Ordering::Acquire) || shared.ticks_us() > until_us
        }
    }

    /// Writes the reply of asynchronous work and resumes the connection.
    pub fn wake(&mut self, reply: &Reply) {
        self.write(reply);
        self.go_on_behind();
    }

    /// Does the same with a reply that is already encoded.
    pub fn wake_with(&mut self, reply: Encoded) {
        reply.error.iter().for_each(|error| self.session.tally.reply(error));
        if self.output.is_empty() {
            self.output = reply.bytes;
        } else {
            self.output.extend_from_slice(&reply.bytes);
        }
        self.go_on_behind();
    }

    /// Resumes taking requests after the asynchronous work.
    fn go_on_behind(&mut self) {
        self.session.take_back();
        self.away_bytes = 0;
        if self.state == State::Resting {
            self.state = State::Open;
        }
    }

    /// Stores a task, which [`Connection::go_on`] polls.
    pub fn keep(&mut self, task: Task, waker: impl FnOnce() -> Waker) {
        self.waker.get_or_insert_with(waker);
        self.task = Some(Kept::new(task, &self.session, self.told));
    }

    /// Polls its task.
    pub fn go_on(&mut self) {
        let (Some(task), Some(waker)) = (&mut self.task, &self.waker) else { return };
        if let Some(reply) = task.go_on(&self.session, waker) {
            self.task = None;
            self.wake(&reply);
        }
    }

    /// Ends a task that waits for other clients, with the reply for this case.
    pub fn give_up(&mut self) {
        if let Some(reply) = self.task.as_ref().and_then(Kept::in_vain).cloned() {
            self.task = None;
            self.wake(&reply);
        }
    }

    /// Handles the result of a login.
    pub fn logged_in(&mut self, login: Login, verdict: Verdict) {
        match self.session.settle(login, verdict) {
            Handled::Reply(reply) => self.wake(&reply),
            Handled::Close(reply) => self.close(&reply),
            _ => self.close(&Reply::error("ERR a login waits for itself: a fault of the server")),
        }
    }

    /// Writes a last reply and starts to close.
    pub fn close(&mut self, reply: &Reply) {
        self.write(reply);
        self.state = State::Closing;
    }

    /// Writes changes of a subscription, each row as its own push message.
    pub fn push(&mut self, reply: Reply) {
        // An error that ends the subscription is a push message too, because it answers no command.
        let rows = match reply {
            Reply::Array(rows) => rows,
            reply => vec![reply],
        };
        for row in rows {
            self.write(&Reply::Push(vec![Reply::text("feed"), row]));
        }
    }

    /// Reports a malformed request and starts to close.
    fn refuse(&mut self, malformed: &Malformed) {
        self.owe(Debt::Reply(Reply::error(malformed.to_string())));
        self.closes(Ending::Malformed);
    }

    /// Completes all queued replies from the receipts of its transactions in the batch, which took
    /// `took_us` microseconds.
    pub fn pay(
        &mut self,
        mut receipts: impl Iterator<Item = mainstay::Result<Receipt>>,
        took_us: u64,
    ) {
        self.behind_bytes = 0;
        self.written = Written::default();
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

    /// Aborts the connection: nothing more is read or sent.
    pub fn cut(&mut self) {
        self.ends();
        self.is_cut = true;
        self.output = Vec::new();
        self.sent = 0;
        // The reservation shrinks, which cannot fail.
        let _ = self.reserve();
    }

    /// Returns whether replies are waiting for the batch.
    pub fn owes(&self) -> bool {
        !self.debts.is_empty()
    }

    /// Returns whether unsent output may wait for the client to read. If not, the connection is aborted.
    fn may_wait(&mut self) -> bool {
        let unsent = self.output.len() - self.sent;
        let waits = unsent <= self.settings().output_bytes && self.reserve().is_ok();
        if !waits {
            self.ending = Ending::SlowReader;
        }
        waits
    }

    /// Returns whether it has no unsent output, no incomplete request and no open transaction.
    pub fn is_idle(&self) -> bool {
        self.output.is_empty() && self.input.is_empty() && self.session.open.is_none()
    }

    /// Returns the steps in progress that have no deadline yet, with the time limit of each in
    /// microseconds.
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

    /// Returns whether it waits for the rest of a request and for nothing else.
    fn awaits_rest(&self) -> bool {
        let awaits = !self.input.is_empty() && !self.left_over && !self.readable;
        // With pending replies, an error would be sent before them.
        awaits && self.may_go_on() && !self.owes()
    }

    /// Handles a deadline. Returns how the connection stalled, or `None` if it made progress.
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
                // The transaction may have been dropped. The reservation shrinks, which cannot fail.
                let _ = self.reserve();
                None
            }
            _ => None,
        }
    }

    /// Sends as much output as the socket takes. Returns false if the connection is over.
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
        if self.output.capacity() > KEPT_BYTES {
            self.output = Vec::new()
        } else {
            self.output.clear()
        }
        // The reservation shrinks, which cannot fail.
        let _ = self.reserve();
        self.flush()
    }

    /// Flushes the stream, and sends the TLS close message if the connection is closing. Returns false if
    /// the connection is over.
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

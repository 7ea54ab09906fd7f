//! A client connection: buffers input, executes requests in order, and sends the replies in the same order.
//!
//! ```text
//!   bytes -> [ input: only incomplete requests ] -> request -> session
//!                                                    |  a reply, or a queued reply that the batch completes
//!   bytes <- [ output: only bytes a slow reader left ] <- queued replies, first to last
//! ```

use super::blocking_reads::{BlockingRead, FeedRead};
use super::connection_state::{
    BatchLoad, CommandOutcome, ConnectionState, PendingReply, WorkerJob, WrittenWords,
};
use super::deadlines::DeadlineKind;
use super::login::Login;
use super::memory_budget::{ConnectionReservations, MemoryUsage};
use super::reply::{Encoded, Reply};
use super::request::{Parsed, Parser, ProtocolError, Words, encode};
use super::shared::ConnectionSlot;
use super::slow_log::CommandSummary;
use super::stalls::{Stall, StallDetector};
use super::stream::Stream;
use super::table::Group;
use super::tasks::{RunningTask, Task};
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
const READ_LIMIT_IN_BATCH: usize = 32;
/// The most estimated reply bytes queued in a batch. Beyond this, no further request joins it.
const REPLY_BYTES_IN_BATCH: usize = 1 << 20;
/// The connection checks the time of its turn each time it has handled this many requests.
const REQUESTS_PER_TIME_CHECK: usize = 8;
/// Empty buffers with more capacity than this are freed.
const IDLE_BUFFER_BYTES: usize = 4 << 10;

/// A queued reply, not written to the output yet.
enum QueuedReply {
    Reply(Reply),
    /// Completed by the receipt of the connection's next transaction in the batch.
    Batch(PendingReply, CommandSummary, Group),
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Ready for the next request.
    Open,
    /// The next request has to wait for the batch.
    Paused,
    /// Suspended: another thread or task is doing its work.
    Suspended,
    /// Closing: pending replies are sent, then the connection is closed.
    Closing,
}

/// The reason why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
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
pub enum AsyncWork {
    /// Long work for a worker thread.
    Job(WorkerJob),
    /// Credentials to verify.
    Login(Box<Login>),
    /// A blocking read, answered once.
    BlockingRead(BlockingRead),
    /// A subscription: one push per change.
    Subscription(Box<FeedRead>),
    /// A task to start.
    Task(Task),
}

pub struct Connection {
    stream: Stream,
    pub state: ConnectionState,
    parser: Parser,
    input: Vec<u8>,
    output: Vec<u8>,
    sent_bytes: usize,
    queued_replies: VecDeque<QueuedReply>,
    /// Estimated size of the replies that the batch will give this connection, in bytes.
    batch_reply_bytes: usize,
    /// The login deadline.
    pub login_due_us: u64,
    /// Sizes of the words that this connection has written in the current batch.
    written_words: WrittenWords,
    /// Memory of its transactions in the batch.
    batch_request_bytes: usize,
    /// Memory of a request that a worker handles.
    worker_request_bytes: usize,
    /// Throttling delay because its user has sent much, and whether the loop has set a deadline for its
    /// end.
    throttle: Option<Duration>,
    has_throttle_deadline: bool,
    /// Its reservations in the shared memory budget.
    reservations: ConnectionReservations,
    /// Deadlines and progress of reads, requests and transactions in progress.
    pub stall_detector: StallDetector,
    _slot: ConnectionSlot,
    /// Summary of its last request, for the slow log.
    summary: CommandSummary,
    close_reason: CloseReason,
    pub phase: Phase,
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
    has_buffered_requests: bool,
    /// True if it is suspended until an event that may never happen, such as a change or an action of
    /// another client.
    is_blocked: bool,
    /// Its running task, and the waker that makes the loop poll the task again.
    task: Option<RunningTask>,
    waker: Option<Waker>,
    /// True while it closes and has a close deadline.
    has_close_deadline: bool,
    /// True if nothing more is sent: the client is gone or the connection was aborted.
    is_aborted: bool,
    /// Number of unsent bytes at the last check of the close deadline.
    unsent_at_check: usize,
    /// True if it is in the loop's ready queue.
    pub is_queued: bool,
}

impl Connection {
    /// Creates the state of a newly accepted connection.
    pub fn new(
        stream: Stream,
        shared: &Arc<Shared>,
        peer: String,
        slot: ConnectionSlot,
    ) -> Connection {
        let state = ConnectionState::new(shared, peer);
        state.update_client_list();
        Connection {
            stream,
            parser: Parser::default(),
            input: Vec::new(),
            output: Vec::new(),
            sent_bytes: 0,
            queued_replies: VecDeque::new(),
            batch_reply_bytes: 0,
            login_due_us: 0,
            written_words: WrittenWords::default(),
            batch_request_bytes: 0,
            worker_request_bytes: 0,
            throttle: None,
            has_throttle_deadline: false,
            reservations: ConnectionReservations::new(&state.account),
            state,
            stall_detector: StallDetector::default(),
            _slot: slot,
            summary: CommandSummary::default(),
            close_reason: CloseReason::HungUp,
            phase: Phase::Open,
            readable: true,
            hung_up: false,
            hung_up_us: Arc::new(AtomicU64::new(u64::MAX)),
            turn_ends_us: 0,
            has_buffered_requests: false,
            is_blocked: false,
            task: None,
            waker: None,
            has_close_deadline: false,
            is_aborted: false,
            unsent_at_check: 0,
            is_queued: false,
        }
    }

    fn settings(&self) -> &Settings {
        &self.state.shared.settings
    }

    pub fn socket(&mut self) -> &mut TcpStream {
        self.stream.socket()
    }

    /// Returns whether the connection has completed the step that had a deadline.
    pub fn has_completed(&self, kind: DeadlineKind) -> bool {
        match kind {
            DeadlineKind::Handshake => self.stream.is_ready(),
            DeadlineKind::Login => self.state.user.is_some(),
            // A connection that has read its last replies is already removed.
            DeadlineKind::Close => false,
            // These steps are checked when their deadline is reached.
            DeadlineKind::Reading
            | DeadlineKind::Request
            | DeadlineKind::Transaction
            | DeadlineKind::Throttle => false,
        }
    }

    /// Returns whether the client has read some bytes since the last call.
    pub fn made_progress(&mut self) -> bool {
        let unsent = self.output.len() - self.sent_bytes;
        std::mem::replace(&mut self.unsent_at_check, unsent) > unsent
    }

    /// Records a socket event: the socket is readable, or the client has closed its side.
    pub fn record_event(&mut self, readable: bool, hung_up: bool) {
        if hung_up && !self.hung_up {
            self.hung_up = true;
            self.hung_up_us.store(self.state.shared.ticks_us(), Ordering::Relaxed);
        }
        self.readable |= readable || hung_up;
    }

    /// Returns whether it can take another request: it is open and its output is not too large.
    fn can_take_request(&self) -> bool {
        self.phase == Phase::Open
            && self.output.len() - self.sent_bytes < self.settings().unsent_bytes
    }

    /// Returns whether it has work for which no further event comes.
    pub fn has_ready_work(&self) -> bool {
        self.throttle.is_none()
            && self.can_take_request()
            && (self.readable || self.has_buffered_requests)
    }

    /// Returns whether all received requests are handled.
    pub fn is_drained(&self) -> bool {
        self.phase == Phase::Open && !self.readable && !self.has_buffered_requests
    }

    /// Takes requests for about `slice_us` microseconds and adds their transactions to the batch. Returns
    /// asynchronous work that the loop has to start.
    pub fn take_requests(
        &mut self,
        slice_us: u64,
        buffer: &mut [u8],
        batch: &mut Vec<Transaction>,
    ) -> Option<AsyncWork> {
        if self.update_throttle() {
            return None;
        }
        let mut remaining = self.settings().turn_requests;
        let mut bytes = 0;
        self.turn_ends_us = self.state.shared.ticks_us().saturating_add(slice_us);
        let mut work = self.consume(&[], &mut remaining, batch);
        while work.is_none()
            && remaining > 0
            && bytes < self.settings().turn_bytes
            && self.readable
            && self.can_take_request()
        {
            match self.stream.read(buffer) {
                Ok(input) if input.is_end() => self.end_input(),
                Ok(input) => {
                    bytes += input.socket_bytes;
                    self.state.counters.count_received(input.socket_bytes);
                    self.state.charge_bytes(input.socket_bytes);
                    self.readable = input.more || self.hung_up;
                    work = self.consume(input.bytes, &mut remaining, batch);
                    // A request of many words can take long to parse before it is complete.
                    if self.readable && self.is_turn_over() {
                        remaining = 0;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.end_input(),
            }
        }
        self.enforce_memory_budget();
        work
    }

    /// Returns whether its user has sent so much that other users come first for a while.
    fn update_throttle(&mut self) -> bool {
        let may_throttle =
            self.phase == Phase::Open && !self.hung_up && self.state.shared.may_wait();
        self.throttle = if may_throttle { self.state.throttle_delay() } else { None };
        self.throttle.is_some()
    }

    /// Returns the throttling delay, once per delay.
    pub fn start_throttle(&mut self) -> Option<Duration> {
        self.throttle.filter(|_| !std::mem::replace(&mut self.has_throttle_deadline, true))
    }

    /// Ends the throttling delay.
    pub fn end_throttle(&mut self) {
        self.throttle = None;
        self.has_throttle_deadline = false;
    }

    /// Returns the memory that the connection holds, by kind.
    fn memory_usage(&self) -> MemoryUsage {
        let words = self.parser.held_bytes() + self.input.capacity();
        MemoryUsage {
            requests: words + self.batch_request_bytes + self.worker_request_bytes,
            replies: self.output.capacity(),
            queued: self.state.queued_bytes(),
            transaction: self.state.open_transaction.as_ref().map_or(0, |open| open.held_bytes()),
        }
    }

    /// Reserves the memory that the connection holds. Fails if it exceeds a limit.
    fn reserve(&mut self) -> Result<(), Exceeded> {
        let usage = self.memory_usage();
        self.reservations.update(&self.state.account, usage)
    }

    /// Enforces the memory limits: aborts the unfinished transaction if that frees enough, otherwise closes
    /// the connection.
    fn enforce_memory_budget(&mut self) {
        let Err(exceeded) = self.reserve() else { return };
        // It reads nothing more until the worker is done. The memory is checked again then.
        if self.state.has_state_at_worker() {
            return;
        }
        if self.state.abort_for_memory(&exceeded) && self.reserve().is_ok() {
            return;
        }
        let is_mid_reply = self.sent_bytes < self.output.len() || self.has_pending();
        self.input = Vec::new();
        self.output = Vec::new();
        self.sent_bytes = 0;
        self.state.multi = None;
        self.queued_replies.clear();
        if !is_mid_reply {
            self.write(&Reply::error(format!("UNAVAILABLE {exceeded}: connect again later")));
        }
        self.end_input();
    }

    /// Handles the end of the client's input.
    fn end_input(&mut self) {
        self.readable = false;
        self.phase = Phase::Closing;
    }

    /// Handles the requests in the buffered and the fresh input, and buffers an incomplete rest.
    fn consume(
        &mut self,
        received: &[u8],
        remaining: &mut usize,
        batch: &mut Vec<Transaction>,
    ) -> Option<AsyncWork> {
        if self.input.is_empty() {
            let (used, work) = self.handle_requests(received, remaining, batch);
            self.input.extend_from_slice(&received[used..]);
            return work;
        }
        self.input.extend_from_slice(received);
        let mut input = std::mem::take(&mut self.input);
        let (used, work) = self.handle_requests(&input, remaining, batch);
        if used == input.len() {
            input = Vec::new()
        } else {
            drop(input.drain(..used))
        }
        self.input = input;
        work
    }

    fn handle_requests(
        &mut self,
        bytes: &[u8],
        remaining: &mut usize,
        batch: &mut Vec<Transaction>,
    ) -> (usize, Option<AsyncWork>) {
        let mut used = 0;
        self.has_buffered_requests = false;
        while *remaining > 0 && self.can_take_request() && used < bytes.len() {
            let limits = self.state.request_limits();
            let parsed = self.parser.next(&bytes[used..], limits);
            let (work, length) = match parsed {
                Ok(Parsed::Incomplete) => return (used, None),
                Ok(Parsed::Unfinished) if self.is_turn_over() => {
                    *remaining = 0;
                    break;
                }
                Ok(Parsed::Unfinished) => continue,
                Ok(Parsed::Request(words, length)) if self.state.goes_to_worker(&words, length) => {
                    (self.send_to_worker(&words, &bytes[used..used + length], batch), length)
                }
                Ok(Parsed::Request(words, length)) => (self.handle_request(&words, batch), length),
                Ok(Parsed::Line(words, length)) => {
                    let words: Words<'_> = words.iter().map(Vec::as_slice).collect();
                    let work = if self.state.goes_to_worker(&words, length) {
                        self.send_to_worker(&words, &encode(&words), batch)
                    } else {
                        self.handle_request(&words, batch)
                    };
                    (work, length)
                }
                Err(error) => {
                    self.reject_malformed(&error);
                    return (bytes.len(), None);
                }
            };
            if self.phase == Phase::Paused {
                // The request was not taken. It is handled again after the batch.
                break;
            }
            used += length;
            *remaining -= 1;
            self.stall_detector.count_request();
            let is_timed = remaining.is_multiple_of(REQUESTS_PER_TIME_CHECK)
                || self.output.len() > IDLE_BUFFER_BYTES;
            if is_timed && self.is_turn_over() {
                *remaining = 0;
            }
            if work.is_some() {
                self.has_buffered_requests = used < bytes.len();
                return (used, work);
            }
        }
        self.has_buffered_requests = used < bytes.len();
        (used, None)
    }

    /// Sends a long request to a worker, which plans and executes it.
    fn send_to_worker(
        &mut self,
        words: &[&[u8]],
        bytes: &[u8],
        batch: &mut Vec<Transaction>,
    ) -> Option<AsyncWork> {
        if self.has_pending() {
            self.phase = Phase::Paused;
            return None;
        }
        self.summary = CommandSummary::new(words);
        self.worker_request_bytes = bytes.len();
        if let Err(exceeded) = self.reserve()
            && self.state.abort_for_memory(&exceeded)
        {
            // The transaction was dropped, so the request is short enough for this thread.
            self.worker_request_bytes = 0;
            return self.handle_request(words, batch);
        }
        let MemoryUsage { queued, transaction, .. } = self.memory_usage();
        self.worker_request_bytes += queued + transaction;
        let job = self.state.answer_at_worker(words, bytes.to_vec());
        self.suspend(AsyncWork::Job(job))
    }

    fn is_turn_over(&self) -> bool {
        self.state.shared.ticks_us() >= self.turn_ends_us
    }

    fn handle_request(
        &mut self,
        words: &[&[u8]],
        batch: &mut Vec<Transaction>,
    ) -> Option<AsyncWork> {
        if words.is_empty() {
            return None;
        }
        let load = match self.queued_replies.len() {
            0 => BatchLoad::Empty,
            _ if self.batch_reply_bytes >= REPLY_BYTES_IN_BATCH => BatchLoad::Full,
            count if count < READ_LIMIT_IN_BATCH => BatchLoad::Some,
            _ => BatchLoad::Many,
        };
        if self.state.shared.slow_log.is_on() {
            self.summary = CommandSummary::new(words);
        }
        match self.state.handle(words, load) {
            CommandOutcome::Reply(reply) => {
                self.state.counters.count_immediate(self.state.group());
                self.queue_reply(QueuedReply::Reply(reply));
            }
            CommandOutcome::Transaction(transaction, pending_reply) => {
                self.written_words.add(words);
                self.state.batch_write_bytes = self.written_words.all_bytes;
                self.batch_request_bytes += transaction.weight_bytes();
                let estimate = self.state.estimate_reply_bytes(&transaction, self.written_words);
                self.batch_reply_bytes = self.batch_reply_bytes.saturating_add(estimate);
                self.queued_replies.push_back(QueuedReply::Batch(
                    pending_reply,
                    self.summary,
                    self.state.group(),
                ));
                batch.push(*transaction);
            }
            CommandOutcome::Deferred => self.phase = Phase::Paused,
            CommandOutcome::Close(reply) => {
                self.queue_reply(QueuedReply::Reply(reply));
                self.start_close(CloseReason::Asked);
            }
            CommandOutcome::LongWork(job) => return self.suspend(AsyncWork::Job(job)),
            CommandOutcome::Login(login) => return self.suspend(AsyncWork::Login(login)),
            CommandOutcome::BlockingRead(read) => {
                return self.suspend(AsyncWork::BlockingRead(read));
            }
            CommandOutcome::Task(task) => return self.suspend(AsyncWork::Task(task)),
            CommandOutcome::Subscription(read) => {
                self.queue_reply(QueuedReply::Reply(super::reply::OK));
                return Some(AsyncWork::Subscription(read));
            }
        }
        None
    }

    fn suspend(&mut self, work: AsyncWork) -> Option<AsyncWork> {
        self.phase = Phase::Suspended;
        // A read of old log entries always comes to an end, so it does not count as waiting.
        self.is_blocked = match &work {
            AsyncWork::BlockingRead(read) => !read.can_continue(),
            AsyncWork::Task(task) => task.waits(),
            _ => false,
        };
        Some(work)
    }

    /// Returns true once, when the connection starts to close and has no pending replies.
    pub fn start_close_deadline(&mut self) -> bool {
        let can_close = self.phase == Phase::Closing && !self.has_pending();
        let starts = can_close && !std::mem::replace(&mut self.has_close_deadline, true);
        if starts {
            self.unsent_at_check = self.output.len() - self.sent_bytes;
        }
        starts
    }

    /// Returns whether it is suspended on an event and the client is gone, so no client would get the
    /// reply. As in Redis, a client that has closed only its own side counts as gone, but still gets the
    /// earlier replies.
    pub fn is_abandoned_wait(&self) -> bool {
        let is_sent = self.sent_bytes == self.output.len();
        self.phase == Phase::Suspended && self.is_blocked && self.hung_up && is_sent
    }

    /// Queues a reply behind all pending replies.
    fn queue_reply(&mut self, queued: QueuedReply) {
        match queued {
            QueuedReply::Reply(reply) if self.queued_replies.is_empty() => self.write(&reply),
            queued => self.queued_replies.push_back(queued),
        }
    }

    /// Starts to close: pending replies are sent first.
    pub fn start_close(&mut self, reason: CloseReason) {
        self.phase = Phase::Closing;
        self.close_reason = reason;
    }

    pub fn close_reason(&self) -> CloseReason {
        self.close_reason
    }

    /// Returns the summary of the last request.
    pub fn summary(&self) -> CommandSummary {
        self.summary
    }

    /// Returns the summaries of the requests that wait for the batch.
    pub fn pending_summaries(&self) -> impl Iterator<Item = CommandSummary> {
        self.queued_replies.iter().filter_map(|queued| match queued {
            QueuedReply::Batch(_, summary, _) => Some(*summary),
            QueuedReply::Reply(_) => None,
        })
    }

    fn write(&mut self, reply: &Reply) {
        if self.is_aborted {
            return;
        }
        self.state.counters.count_reply(reply);
        reply.write(self.state.protocol, &mut self.output);
    }

    /// Returns a function that tells whether work done for this connection can be abandoned. That is so if
    /// the client is gone, or has closed its side for longer than it may take to read the last replies.
    pub fn abandon_check(&self) -> impl Fn() -> bool + Send + use<> {
        let shared = self.state.shared.clone();
        let alive = self.state.alive.clone();
        let hung_up_us = self.hung_up_us.clone();
        let limit_us = self.settings().drain_limit_ms.saturating_mul(1000);
        move || {
            let until_us = hung_up_us.load(Ordering::Relaxed).saturating_add(limit_us);
            // Pairs with the `Release` store when the session is dropped or changes its user.
            !alive.load(Ordering::Acquire) || shared.ticks_us() > until_us
        }
    }

    /// Writes the reply of asynchronous work and resumes the connection.
    pub fn resume(&mut self, reply: &Reply) {
        self.write(reply);
        self.resume_requests();
    }

    /// Does the same with a reply that is already encoded.
    pub fn resume_encoded(&mut self, reply: Encoded) {
        reply.error.iter().for_each(|error| self.state.counters.count_reply(error));
        if self.output.is_empty() {
            self.output = reply.bytes;
        } else {
            self.output.extend_from_slice(&reply.bytes);
        }
        self.resume_requests();
    }

    /// Resumes taking requests after the asynchronous work.
    fn resume_requests(&mut self) {
        self.state.restore_from_worker();
        self.worker_request_bytes = 0;
        if self.phase == Phase::Suspended {
            self.phase = Phase::Open;
        }
    }

    /// Stores a task, which [`Connection::poll_task`] polls.
    pub fn start_task(&mut self, task: Task, waker: impl FnOnce() -> Waker) {
        self.waker.get_or_insert_with(waker);
        self.task = Some(RunningTask::new(task, &self.state, self.summary));
    }

    /// Polls its task.
    pub fn poll_task(&mut self) {
        let (Some(task), Some(waker)) = (&mut self.task, &self.waker) else { return };
        if let Some(reply) = task.poll(&self.state, waker) {
            self.task = None;
            self.resume(&reply);
        }
    }

    /// Ends a task that waits for other clients, with the reply for this case.
    pub fn cancel_wait(&mut self) {
        if let Some(reply) = self.task.as_ref().and_then(RunningTask::early_reply).cloned() {
            self.task = None;
            self.resume(&reply);
        }
    }

    /// Handles the result of a login.
    pub fn finish_login(&mut self, login: Login, verdict: Verdict) {
        match self.state.complete_login(login, verdict) {
            CommandOutcome::Reply(reply) => self.resume(&reply),
            CommandOutcome::Close(reply) => self.close(&reply),
            _ => self.close(&Reply::error("ERR a login waits for itself: a fault of the server")),
        }
    }

    /// Writes a last reply and starts to close.
    pub fn close(&mut self, reply: &Reply) {
        self.write(reply);
        self.phase = Phase::Closing;
    }

    /// Writes changes of a subscription, each row as its own push message.
    pub fn push_changes(&mut self, reply: Reply) {
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
    fn reject_malformed(&mut self, error: &ProtocolError) {
        self.queue_reply(QueuedReply::Reply(Reply::error(error.to_string())));
        self.start_close(CloseReason::Malformed);
    }

    /// Completes all queued replies from the receipts of its transactions in the batch, which took
    /// `took_us` microseconds.
    pub fn complete_batch(
        &mut self,
        mut receipts: impl Iterator<Item = mainstay::Result<Receipt>>,
        took_us: u64,
    ) {
        self.batch_reply_bytes = 0;
        self.written_words = WrittenWords::default();
        self.state.batch_write_bytes = 0;
        self.batch_request_bytes = 0;
        while let Some(queued) = self.queued_replies.pop_front() {
            let reply = match queued {
                QueuedReply::Reply(reply) => reply,
                QueuedReply::Batch(pending_reply, _, group) => {
                    self.state.counters.record_duration(group, took_us);
                    match receipts.next() {
                        Some(receipt) => pending_reply.reply(receipt),
                        None => Reply::error("ERR the batch lost an answer: a fault of the server"),
                    }
                }
            };
            self.write(&reply);
        }
        if self.phase == Phase::Paused {
            self.phase = Phase::Open;
        }
    }

    /// Aborts the connection: nothing more is read or sent.
    pub fn abort(&mut self) {
        self.end_input();
        self.is_aborted = true;
        self.output = Vec::new();
        self.sent_bytes = 0;
        // The reservation shrinks, which cannot fail.
        let _ = self.reserve();
    }

    /// Returns whether replies are waiting for the batch.
    pub fn has_pending(&self) -> bool {
        !self.queued_replies.is_empty()
    }

    /// Returns whether unsent output may wait for the client to read. If not, the connection is aborted.
    fn can_buffer_output(&mut self) -> bool {
        let unsent = self.output.len() - self.sent_bytes;
        let fits = unsent <= self.settings().output_bytes && self.reserve().is_ok();
        if !fits {
            self.close_reason = CloseReason::SlowReader;
        }
        fits
    }

    /// Returns whether it has no unsent output, no incomplete request and no open transaction.
    pub fn is_idle(&self) -> bool {
        self.output.is_empty() && self.input.is_empty() && self.state.open_transaction.is_none()
    }

    /// Returns the steps in progress that have no deadline yet, with the time limit of each in
    /// microseconds.
    pub fn new_deadlines(&mut self) -> impl Iterator<Item = (DeadlineKind, u64)> + use<> {
        let is_unsent = self.sent_bytes < self.output.len();
        let is_incomplete = self.awaits_request_rest();
        let time_left = self.state.open_transaction.as_ref().and_then(|open| open.time_left());
        let settings = &self.state.shared.settings;
        self.stall_detector.start_deadlines(
            is_unsent.then_some(settings.write_limit_ms),
            is_incomplete.then_some(settings.request_limit_ms),
            time_left,
        )
    }

    /// Returns whether it waits for the rest of a request and for nothing else.
    fn awaits_request_rest(&self) -> bool {
        let is_incomplete = !self.input.is_empty() && !self.has_buffered_requests && !self.readable;
        // With pending replies, an error would be sent before them.
        is_incomplete && self.can_take_request() && !self.has_pending()
    }

    /// Handles a deadline. Returns how the connection stalled, or `None` if it made progress.
    pub fn check_stall(&mut self, kind: DeadlineKind) -> Option<Stall> {
        match kind {
            DeadlineKind::Reading => {
                let unsent = self.output.len() - self.sent_bytes;
                self.stall_detector.is_reader_stalled(unsent).then(|| {
                    self.close_reason = CloseReason::SlowReader;
                    Stall::Reader
                })
            }
            DeadlineKind::Request => {
                let is_incomplete = self.awaits_request_rest();
                self.stall_detector.is_request_stalled(is_incomplete).then_some(Stall::Request)
            }
            DeadlineKind::Transaction => {
                self.stall_detector.end_transaction_deadline();
                if let Some(open) = &mut self.state.open_transaction {
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
        if self.is_aborted {
            return false;
        }
        while self.sent_bytes < self.output.len() {
            match self.stream.write(&self.output[self.sent_bytes..]) {
                Ok(0) => return false,
                Ok(count) => {
                    self.sent_bytes += count;
                    self.stall_detector.count_sent(count);
                    self.state.counters.count_sent(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return self.can_buffer_output();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        self.sent_bytes = 0;
        if self.output.capacity() > IDLE_BUFFER_BYTES {
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
        let is_over = self.phase == Phase::Closing && !self.has_pending();
        if is_over {
            self.stream.send_close();
        }
        match self.stream.flush() {
            Ok(()) => !is_over,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

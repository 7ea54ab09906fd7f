//! The event loop: reads all ready sockets, executes their requests as one batch, and sends the replies.
//!
//! ```text
//!   poll -> take requests of all ready connections -> send the replies that need no batch
//!     ^                     |  batch
//!     |                     v
//!     +---- send <-- complete queued replies <-- execute_all: one fsync for all
//! ```
//!
//! The loop's own thread executes the batch and drives the log while no other client is expected to read.
//! This costs no task and no wake-up per command. Otherwise a separate thread executes the batch. Several
//! loops share the connections.

use super::Shared;
use super::batches::{BatchExecutor, Receipts};
use super::blocking_reads::{BlockingRead, BlockingReads, WaitingReader};
use super::connection::{AsyncWork, CloseReason, Connection, Phase};
use super::counters::{LoopCounters, increment};
use super::deadlines::{Deadline, DeadlineKind, Deadlines};
use super::login::Login;
use super::reply::{Encoded, Reply};
use super::shared::ConnectionSlot;
use super::slow_log::BATCH_LIMIT;
use super::stalls::Stall;
use super::stream::Stream;
use super::worker_metrics;
use super::workers::Workers;
use super::write_queue::{Batch, ConnectionWrites, Waiter, WriteQueue};
use crate::fair_queue::FairQueue;
use crate::security::Verdict;
use crate::telemetry::spans;
use crate::tls::Tls;
use mainstay::{Durability, Transaction};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Wake;
use std::thread::JoinHandle;
use std::time::Duration;

const WAKER: Token = Token(usize::MAX);
const LISTENER: Token = Token(usize::MAX - 1);

/// Size of the read buffer: the most bytes that one read takes from a socket.
pub(super) const BUFFER_BYTES: usize = 64 << 10;
/// Number of slices in a turn. A connection gets at most one slice while other connections wait.
const SLICES: usize = 4;
/// The most connections accepted in one turn, so that a flood of new connections does not delay the
/// existing ones.
const ACCEPTS_PER_TURN: usize = 16;
/// Poll interval of a stopping loop, and the delay before `accept` is tried again after it failed (for
/// example because the process has no free file descriptor).
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// While other connections exist, a transaction with more steps than this is executed off the event loop,
/// whatever its durability is.
const SHORT_STEPS: usize = 16;
/// A batch with more transactions than this goes to the writer in parts, which waits for room before each
/// part.
const SHORT_BATCH: usize = 1_024;
/// After this many batches without a read, the loop expects no read while the next batch waits for the
/// disk.
const UNREAD_BATCHES: u32 = 64;
/// After a batch that took longer than this, the next batch is executed off the event loop too, while other
/// connections exist.
const SLOW_BATCH_US: u64 = 2_000;

/// A message from another thread to the loop.
enum Message {
    Connect(TcpStream, String, ConnectionSlot),
    /// The reply for a suspended connection. The session id tells whether the slot still holds the same
    /// connection.
    Reply(usize, u64, Encoded),
    Push(usize, u64, Reply),
    /// A connection's task can go on.
    PollTask(usize, u64),
    /// The result of verifying a login.
    LoginVerified(usize, u64, Box<Login>, Verdict),
    /// The receipts of the batch that the executor thread has finished.
    BatchExecuted(Receipts),
    Stop,
}

/// A handle for sending messages to a loop.
#[derive(Clone)]
struct LoopHandle {
    messages: Sender<Message>,
    waker: Arc<Waker>,
}

impl LoopHandle {
    fn send(&self, message: Message) {
        // A loop that has ended has no connections left, so a lost message does no harm.
        if self.messages.send(message).is_ok() {
            let _ = self.waker.wake();
        }
    }
}

/// The waker of a connection's task: tells the loop to poll the task again.
struct TaskWaker {
    loop_handle: LoopHandle,
    slot: usize,
    id: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.loop_handle.send(Message::PollTask(self.slot, self.id));
    }
}

/// The running RESP front end.
pub struct Handle {
    loop_handles: Vec<LoopHandle>,
    threads: Vec<JoinHandle<()>>,
}

impl Handle {
    /// Stops accepting connections, answers the requests already received, closes all connections and joins
    /// the threads.
    pub fn stop(self) {
        self.loop_handles.iter().for_each(|loop_handle| loop_handle.send(Message::Stop));
        for thread in self.threads {
            // The thread ends normally or by a panic, which was printed when it happened.
            let _ = thread.join();
        }
    }
}

/// Serves a listener without TLS.
pub fn serve(listener: std::net::TcpListener, shared: &Arc<Shared>) -> io::Result<Handle> {
    serve_with(listener, None, shared)
}

/// Serves a listener, with TLS if `tls` is given.
pub fn serve_with(
    listener: std::net::TcpListener,
    tls: Option<Tls>,
    shared: &Arc<Shared>,
) -> io::Result<Handle> {
    listener.set_nonblocking(true)?;
    shared.set_port(listener.local_addr()?.port());
    let workers = Workers::start(shared.settings.workers, shared.settings.waiting_work)?;
    let blocking_reads = BlockingReads::start(shared.clone())?;
    let mut loops = Vec::new();
    for _ in 0..shared.settings.effective_loops() {
        loops.push(Loop::new(
            shared.clone(),
            tls.clone(),
            workers.clone(),
            blocking_reads.clone(),
        )?);
    }
    let loop_handles: Vec<LoopHandle> =
        loops.iter().map(|event_loop| event_loop.loop_handle.clone()).collect();
    if let Some(first) = loops.first_mut() {
        first.listen(TcpListener::from_std(listener), loop_handles.clone())?;
    }
    let mut threads = Vec::new();
    for (number, event_loop) in loops.into_iter().enumerate() {
        let thread = std::thread::Builder::new().name(format!("mainstay-loop-{number}"));
        threads.push(thread.spawn(move || event_loop.run())?);
    }
    Ok(Handle { loop_handles, threads })
}

struct AcceptQueue {
    listener: TcpListener,
    /// The loops, which receive the accepted connections round-robin.
    loops: Vec<LoopHandle>,
    next: usize,
    /// Set if connections were left in the accept queue, for which no further event comes: the delay before
    /// the next `accept`.
    retry_after: Option<Duration>,
}

struct Loop {
    shared: Arc<Shared>,
    tls: Option<Tls>,
    poll: Poll,
    loop_handle: LoopHandle,
    inbox: Receiver<Message>,
    accept_queue: Option<AcceptQueue>,
    connections: Slab<Connection>,
    deadlines: Deadlines,
    /// Connections with work to do. Users take turns, however many connections each of them has.
    ready: FairQueue<usize, (usize, u64)>,
    /// The connections served in this turn.
    served: Vec<usize>,
    writes: WriteQueue,
    /// The batch that the executor thread is executing, without its transactions.
    running_batch: Option<Batch>,
    /// True if the last batch took longer than `SLOW_BATCH_US`.
    batch_was_slow: bool,
    /// Number of batches since the loop last served a connection without pending replies. Such a connection
    /// read, or may read next.
    batches_since_read: u32,
    /// Start time of the last batch.
    executed_us: u64,
    executor: BatchExecutor,
    buffer: Vec<u8>,
    workers: Workers,
    blocking_reads: BlockingReads,
    counters: Arc<LoopCounters>,
    /// Start time of this turn, and the last clock reading.
    turn_start_us: u64,
    last_clock_us: u64,
    /// Set while the loop stops: the time at which it ends even if connections are left.
    stopping: Option<u64>,
}

impl Loop {
    fn new(
        shared: Arc<Shared>,
        tls: Option<Tls>,
        workers: Workers,
        blocking_reads: BlockingReads,
    ) -> io::Result<Loop> {
        let poll = Poll::new()?;
        let (messages, inbox) = channel();
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let loop_handle = LoopHandle { messages, waker };
        let executor_handle = loop_handle.clone();
        Ok(Loop {
            writes: WriteQueue::default(),
            running_batch: None,
            batch_was_slow: false,
            batches_since_read: 0,
            executed_us: 0,
            executor: BatchExecutor::start(shared.db.clone(), move |receipts| {
                executor_handle.send(Message::BatchExecuted(receipts))
            })?,
            counters: shared.metrics.new_loop_counters(),
            turn_start_us: 0,
            last_clock_us: 0,
            shared,
            tls,
            poll,
            loop_handle,
            inbox,
            accept_queue: None,
            connections: Slab::new(),
            deadlines: Deadlines::default(),
            ready: FairQueue::default(),
            served: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
            workers,
            blocking_reads,
            stopping: None,
        })
    }

    fn listen(&mut self, mut listener: TcpListener, loops: Vec<LoopHandle>) -> io::Result<()> {
        self.poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        self.accept_queue = Some(AcceptQueue { listener, loops, next: 0, retry_after: None });
        Ok(())
    }

    fn run(mut self) {
        let mut events = Events::with_capacity(1024);
        while !self.is_over() {
            match self.poll.poll(&mut events, self.poll_timeout()) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return tracing::error!(%error, "waiting for sockets failed"),
            }
            let mut has_messages = false;
            for event in &events {
                match event.token() {
                    WAKER => has_messages = true,
                    LISTENER => self.accept(),
                    Token(slot_index) => {
                        let hung_up = event.is_read_closed() || event.is_error();
                        self.record_event(slot_index, event.is_readable(), hung_up);
                    }
                }
            }
            // Messages come after the events, because a message can free a slot and give it to a new
            // connection. An event of the old connection must not reach the new one.
            if has_messages {
                self.handle_messages();
            }
            if self.accept_retry().is_some() {
                self.accept();
            }
            self.turn_start_us = self.shared.ticks_us();
            self.run_turn();
            self.close_expired();
        }
    }

    fn accept_retry(&self) -> Option<Duration> {
        self.accept_queue.as_ref().and_then(|queue| queue.retry_after)
    }

    fn is_over(&self) -> bool {
        self.stopping.is_some_and(|until_us| {
            self.connections.is_empty() || self.shared.ticks_us() >= until_us
        })
    }

    /// Returns the poll timeout.
    fn poll_timeout(&self) -> Option<Duration> {
        let can_write = self.running_batch.is_none() && !self.writes.is_empty();
        if !self.ready.is_empty() || can_write {
            return Some(Duration::ZERO);
        }
        let timeout = self.accept_retry().or(self.stopping.map(|_| RETRY_INTERVAL));
        timeout
            .into_iter()
            .chain(
                self.deadlines.next_us().map(|at_us| {
                    Duration::from_micros(at_us.saturating_sub(self.shared.ticks_us()))
                }),
            )
            .min()
    }

    /// Handles the deadlines that have passed: closes the connections that have not completed the step in
    /// time.
    fn close_expired(&mut self) {
        if self.deadlines.next_us().is_none() {
            return;
        }
        let now_us = self.shared.ticks_us();
        while let Some(Deadline { slot: slot_index, id, kind }) = self.deadlines.pop_expired(now_us)
        {
            let Some(connection) = self.connections.get_mut(slot_index) else { continue };
            if connection.state.id != id || connection.has_completed(kind) {
                continue;
            }
            match kind {
                // The client reads slowly, but it reads.
                DeadlineKind::Close if connection.made_progress() => {
                    self.limit_close(slot_index, id);
                }
                DeadlineKind::Handshake | DeadlineKind::Close => self.close(slot_index),
                DeadlineKind::Reading | DeadlineKind::Request | DeadlineKind::Transaction => {
                    self.handle_stall(slot_index, kind)
                }
                DeadlineKind::Throttle => {
                    connection.end_throttle();
                    self.enqueue_ready(slot_index);
                }
                // The connection has logged in and was reset to unauthenticated since, which set a new
                // login deadline.
                DeadlineKind::Login if now_us < connection.login_due_us => {}
                // The server is still verifying its password, so the delay is not the client's.
                DeadlineKind::Login if connection.phase == Phase::Suspended => {
                    self.limit_login(slot_index, id)
                }
                DeadlineKind::Login => {
                    let message =
                        "NOAUTH Authentication took too long: security.login_limit_ms is the limit";
                    connection.close(&Reply::error(message));
                    self.enqueue_ready(slot_index);
                }
            }
        }
    }

    /// Handles the deadline of a read, a request or a transaction.
    fn handle_stall(&mut self, slot_index: usize, kind: DeadlineKind) {
        let Some(connection) = self.connections.get_mut(slot_index) else { return };
        match connection.check_stall(kind) {
            Some(Stall::Reader) => return self.close(slot_index),
            Some(Stall::Request) => {
                let limit = self.shared.settings.request_limit_ms;
                connection.close(&Reply::error(format!(
                    "ERR Protocol error: the rest of the request did not come within resp.request_limit_ms ({limit} ms)"
                )));
                self.enqueue_ready(slot_index);
            }
            None => {}
        }
        self.set_deadlines(slot_index);
    }

    /// Sets deadlines for everything the connection has started and has no deadline for yet.
    fn set_deadlines(&mut self, slot_index: usize) {
        let Some(connection) = self.connections.get_mut(slot_index) else { return };
        if connection.is_idle() {
            return;
        }
        let id = connection.state.id;
        for (kind, limit_us) in connection.new_deadlines() {
            self.set_deadline(Deadline { slot: slot_index, id, kind }, limit_us);
        }
    }

    fn close(&mut self, slot_index: usize) {
        let Some(connection) = self.connections.get_mut(slot_index) else { return };
        connection.abort();
        // The requests in the batch are still executed. Their memory counts for this connection until then.
        if connection.has_pending() {
            return;
        }
        let mut connection = self.connections.remove(slot_index);
        self.log_close(&connection);
        let _ = self.poll.registry().deregister(connection.socket());
    }

    fn record_event(&mut self, slot_index: usize, readable: bool, hung_up: bool) {
        if let Some(connection) = self.connections.get_mut(slot_index) {
            connection.record_event(readable, hung_up);
            self.enqueue_ready(slot_index);
        }
    }

    fn enqueue_ready(&mut self, slot_index: usize) {
        if let Some(connection) = self.connections.get_mut(slot_index)
            && !std::mem::replace(&mut connection.is_queued, true)
        {
            self.ready.push(connection.state.user_key(), (slot_index, connection.state.id));
        }
    }

    fn handle_messages(&mut self) {
        while let Ok(message) = self.inbox.try_recv() {
            match message {
                Message::Connect(socket, peer, slot) => self.connect(socket, peer, slot),
                Message::Reply(slot_index, id, reply) => {
                    self.with_connection(slot_index, id, |it| it.resume_encoded(reply))
                }
                Message::Push(slot_index, id, reply) => {
                    self.with_connection(slot_index, id, |it| it.push_changes(reply))
                }
                Message::PollTask(slot_index, id) => {
                    self.with_connection(slot_index, id, Connection::poll_task)
                }
                Message::LoginVerified(slot_index, id, login, verdict) => {
                    self.with_connection(slot_index, id, |it| it.finish_login(*login, verdict));
                }
                Message::BatchExecuted(receipts) => {
                    if let Some(batch) = self.running_batch.take() {
                        self.complete_batch(batch, receipts);
                    }
                }
                Message::Stop => self.stop(),
            }
        }
    }

    fn with_connection(
        &mut self,
        slot_index: usize,
        id: u64,
        action: impl FnOnce(&mut Connection),
    ) {
        if let Some(connection) = self.connections.get_mut(slot_index)
            && connection.state.id == id
        {
            action(connection);
            self.enqueue_ready(slot_index);
        }
    }

    /// Stops the loop: closes each connection once its requests are answered, including those not read from
    /// the socket yet.
    fn stop(&mut self) {
        let drain_us = self.shared.settings.drain_limit_ms * 1000;
        self.stopping = Some(self.shared.ticks_us() + drain_us);
        self.shared.stop_waiting();
        self.accept_queue = None;
        let places: Vec<usize> =
            self.connections.iter().map(|(slot_index, _)| slot_index).collect();
        for slot_index in places {
            if let Some(connection) = self.connections.get_mut(slot_index) {
                connection.cancel_wait();
            }
            self.record_event(slot_index, true, false);
        }
    }

    fn accept(&mut self) {
        let Some(queue) = &mut self.accept_queue else { return };
        let retry_after = queue.retry_after.replace(Duration::ZERO);
        for _ in 0..ACCEPTS_PER_TURN {
            match queue.listener.accept() {
                Ok((socket, peer)) => {
                    let Some(slot) = self.shared.reserve_slot() else {
                        increment(&self.shared.metrics.rejected);
                        tracing::debug!(client = %peer, "a connection was refused: there are too many");
                        reject(socket, self.tls.is_some());
                        continue;
                    };
                    increment(&self.shared.metrics.accepted);
                    queue.next = (queue.next + 1) % queue.loops.len();
                    queue.loops[queue.next].send(Message::Connect(socket, peer.to_string(), slot));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    queue.retry_after = None;
                    return;
                }
                // For example, the process has no free file descriptor. The loop serves the existing
                // connections first.
                Err(error) => {
                    queue.retry_after = Some(RETRY_INTERVAL);
                    // Warn only once per series of failures.
                    if retry_after != Some(RETRY_INTERVAL) {
                        tracing::warn!(%error, "a connection was not accepted");
                    }
                    return;
                }
            }
        }
    }

    fn connect(&mut self, socket: TcpStream, peer: String, slot: ConnectionSlot) {
        if self.stopping.is_some() {
            return;
        }
        // Replies are written as a whole, so delaying small packets (Nagle's algorithm) would only add
        // latency.
        let _ = socket.set_nodelay(true);
        let stream = match Stream::new(socket, self.tls.as_ref().map(Tls::config)) {
            Ok(stream) => stream,
            Err(error) => {
                return tracing::warn!(client = %peer, %error, "TLS could not begin");
            }
        };
        let entry = self.connections.vacant_entry();
        let slot_index = entry.key();
        let connection = entry.insert(Connection::new(stream, &self.shared, peer, slot));
        connection.state.counters = self.counters.clone();
        let id = connection.state.id;
        let is_unauthenticated = connection.state.user.is_none();
        let both = Interest::READABLE | Interest::WRITABLE;
        let registered =
            self.poll.registry().register(connection.socket(), Token(slot_index), both);
        match registered {
            Ok(()) => self.enqueue_ready(slot_index),
            Err(error) => {
                tracing::warn!(%error, "a connection was not registered");
                self.connections.remove(slot_index);
            }
        }
        self.limit_handshake(slot_index, id);
        if is_unauthenticated {
            self.limit_login(slot_index, id);
        }
    }

    /// Limits the time for the TLS handshake.
    fn limit_handshake(&mut self, slot_index: usize, id: u64) {
        if let Some(tls) = &self.tls {
            let limit_us = u64::try_from(tls.handshake_limit().as_micros()).unwrap_or(u64::MAX);
            self.set_deadline(
                Deadline { slot: slot_index, id, kind: DeadlineKind::Handshake },
                limit_us,
            );
        }
    }

    /// Limits the time in which an unauthenticated client has to log in.
    fn limit_login(&mut self, slot_index: usize, id: u64) {
        let limit_us = self.shared.security.settings().login_limit_ms.saturating_mul(1000);
        if let Some(connection) = self.connections.get_mut(slot_index) {
            connection.login_due_us = self.shared.ticks_us().saturating_add(limit_us);
        }
        self.set_deadline(Deadline { slot: slot_index, id, kind: DeadlineKind::Login }, limit_us);
    }

    /// Limits the time in which the client of a closing connection has to read its last replies (the close
    /// deadline).
    fn limit_close(&mut self, slot_index: usize, id: u64) {
        let limit_us = self.shared.settings.drain_limit_ms.saturating_mul(1000);
        self.set_deadline(Deadline { slot: slot_index, id, kind: DeadlineKind::Close }, limit_us);
    }

    fn set_deadline(&mut self, deadline: Deadline, limit_us: u64) {
        self.deadlines.insert(self.shared.ticks_us().saturating_add(limit_us), deadline);
    }

    /// Serves ready connections until the time of the turn is used up. The rest come first in the next
    /// turn.
    fn run_turn(&mut self) {
        let turn_us = self.shared.settings.turn_us;
        // Connections that become ready during this turn wait for the next one.
        let ready = self.ready.len();
        let slice_us = turn_us / ready.clamp(1, SLICES) as u64;
        for _ in 0..ready {
            let Some((_, (slot_index, id))) = self.ready.pop() else { break };
            self.serve(slot_index, id, slice_us);
            if self.last_clock_us.saturating_sub(self.turn_start_us) >= turn_us {
                break;
            }
        }
        self.counters.record_turn(self.last_clock_us.saturating_sub(self.turn_start_us));
        self.end_turn();
    }

    /// Sends the replies of the turn before the loop waits for the batch. It sends them all together,
    /// because a client woken by each single reply would take the processor in between.
    fn end_turn(&mut self) {
        let mut served = std::mem::take(&mut self.served);
        served.retain(|&slot_index| {
            let has_pending = self.connections.get(slot_index).is_some_and(Connection::has_pending);
            if !has_pending {
                self.finish(slot_index);
            }
            has_pending
        });
        if self.running_batch.is_none() && !self.writes.is_empty() {
            self.execute_batch();
        }
        for slot_index in served.drain(..) {
            // All other connections were completed and finished by `complete_batch`.
            if self.connections.get(slot_index).is_some_and(Connection::has_pending) {
                self.finish(slot_index);
            }
        }
        self.served = served;
    }

    /// Takes requests from one connection for about `slice_us` microseconds.
    fn serve(&mut self, slot_index: usize, id: u64, slice_us: u64) {
        let Some(connection) = self.connections.get_mut(slot_index) else { return };
        if connection.state.id != id {
            return;
        }
        connection.is_queued = false;
        // The connection continues when its batch is complete. Until then, the loop only sends it earlier
        // replies.
        if connection.has_pending() {
            return self.served.push(slot_index);
        }
        let start_us = self.last_clock_us.max(self.turn_start_us);
        let was_authenticated = connection.state.user.is_some();
        let transactions = self.writes.pending_transactions();
        let first = transactions.len();
        let work = connection.take_requests(slice_us, &mut self.buffer, transactions);
        self.last_clock_us = self.shared.ticks_us();
        let took_us = self.last_clock_us.saturating_sub(start_us);
        if self.shared.slow_log.is_slow(took_us) {
            let last = std::iter::once(connection.summary());
            connection.state.log_slow(last, took_us);
        }
        if connection.has_pending() {
            let owner = connection.state.user_key();
            let began_us = self.turn_start_us;
            self.writes.assign(ConnectionWrites { owner, slot: slot_index, id, first, began_us });
        } else {
            // The connection dropped its requests of this turn, so nothing waits for these transactions.
            self.writes.truncate_to(first);
            self.batches_since_read = 0;
        }
        // RESET makes the connection unauthenticated again. It then no longer counts for its user.
        if was_authenticated && connection.state.user.is_none() {
            self.limit_login(slot_index, id);
        }
        if let Some(work) = work {
            self.dispatch(slot_index, work);
        }
        self.served.push(slot_index);
    }

    /// Executes the next batch, on the executor thread if other clients could send requests meanwhile.
    /// Completed connections continue in the next turn, so one that keeps writing does not delay the
    /// others.
    fn execute_batch(&mut self) {
        let mut batch = self.writes.next_batch();
        self.counters.record_batch(batch.transactions.len());
        self.executed_us = self.shared.ticks_us();
        self.batches_since_read = self.batches_since_read.saturating_add(1);
        let others_may_read = self.others_may_read(&batch);
        let mut transactions = std::mem::take(&mut batch.transactions);
        if others_may_read {
            match self.executor.submit(transactions) {
                Ok(()) => {
                    self.running_batch = Some(batch);
                    return;
                }
                Err(returned) => transactions = returned,
            }
        }
        let span = spans::batch(transactions.len());
        let receipts = span.in_scope(|| self.shared.db.execute_all(transactions));
        self.complete_batch(batch, receipts);
    }

    /// Returns whether another client could send a request while the batch waits for the disk or for other
    /// writers.
    fn others_may_read(&self, batch: &Batch) -> bool {
        let Batch { transactions, waiters, .. } = batch;
        let default_durability = self.shared.settings.durability;
        let syncs = |transaction: &Transaction| {
            transaction.durability.unwrap_or(default_durability) == Durability::Sync
        };
        // The handover to another thread and back costs a fifth of a write. The loop saves it while all
        // clients only write. A connection that is ready and was not served in this turn may be about to
        // read.
        let a_read_is_likely = self.batches_since_read <= UNREAD_BATCHES || !self.ready.is_empty();
        // A transaction of several steps may take long without an fsync, because each step may rewrite a
        // large record.
        self.connections.len() > waiters.len()
            && (a_read_is_likely && transactions.iter().any(syncs)
                || transactions.len() > SHORT_BATCH
                || transactions.iter().any(|transaction| transaction.steps.len() > SHORT_STEPS)
                || self.batch_was_slow
                || self.shared.db.is_busy())
    }

    /// Completes the queued replies of the connections in a batch from its receipts, and sends them.
    fn complete_batch(&mut self, batch: Batch, receipts: Receipts) {
        let mut receipts = receipts.into_iter();
        self.last_clock_us = self.shared.ticks_us();
        self.batch_was_slow = self.last_clock_us.saturating_sub(self.executed_us) > SLOW_BATCH_US;
        let mut slow = BATCH_LIMIT;
        for Waiter { slot: slot_index, id, transactions, began_us } in batch.waiters {
            let mut own_receipts = receipts.by_ref().take(transactions);
            let took_us = self.last_clock_us.saturating_sub(began_us);
            let connection = self.connections.get_mut(slot_index);
            if let Some(connection) = connection.filter(|it| it.state.id == id) {
                if slow > 0 && self.shared.slow_log.is_slow(took_us) {
                    slow -= connection
                        .state
                        .log_slow(connection.pending_summaries().take(slow), took_us);
                }
                connection.complete_batch(&mut own_receipts, took_us);
                self.finish(slot_index);
            }
            // Drops the receipts of a connection that is gone, so that the next connection does not get
            // them.
            own_receipts.for_each(drop);
        }
    }

    /// Sends the replies of a connection, and closes the connection if it is over.
    fn finish(&mut self, slot_index: usize) {
        let Some(connection) = self.connections.get_mut(slot_index) else { return };
        if self.stopping.is_some() && connection.is_drained() {
            connection.start_close(CloseReason::Stopped);
        }
        if !connection.send() || connection.is_abandoned_wait() {
            return self.close(slot_index);
        }
        if connection.start_close_deadline() {
            let id = connection.state.id;
            return self.limit_close(slot_index, id);
        }
        if let Some(delay) = connection.start_throttle() {
            let id = connection.state.id;
            let wait_us = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
            self.set_deadline(
                Deadline { slot: slot_index, id, kind: DeadlineKind::Throttle },
                wait_us,
            );
            return self.set_deadlines(slot_index);
        }
        // A connection with pending replies continues when its batch is complete.
        if connection.has_ready_work() && !connection.has_pending() {
            self.enqueue_ready(slot_index);
        }
        self.set_deadlines(slot_index);
    }

    fn log_close(&self, connection: &Connection) {
        let client = &connection.state.peer;
        let reason = connection.close_reason();
        match reason {
            CloseReason::SlowReader => {
                increment(&self.shared.metrics.slow_readers);
                tracing::warn!(%client, "a connection was cut: it does not read its replies");
            }
            _ => tracing::debug!(%client, why = ?reason, "a connection is over"),
        }
    }

    /// Starts the asynchronous work that a connection needs.
    fn dispatch(&mut self, slot_index: usize, work: AsyncWork) {
        let Some(connection) = self.connections.get_mut(slot_index) else { return };
        let id = connection.state.id;
        let loop_handle = self.loop_handle.clone();
        let alive = connection.state.alive.clone();
        // The worker encodes the reply, because encoding a long reply here would delay the other
        // connections.
        let protocol = connection.state.protocol;
        let done = move |reply: Reply| {
            loop_handle.send(Message::Reply(slot_index, id, Encoded::new(&reply, protocol)));
        };
        let loop_handle = self.loop_handle.clone();
        match work {
            AsyncWork::Job(job) => {
                let job = worker_metrics::measure_job(&self.shared, connection, job);
                let user = connection.state.user.as_deref();
                if let Err(done) = self.workers.submit(user, job, done) {
                    done(Reply::error(
                        "UNAVAILABLE too much long work is under way: try later, or raise resp.waiting_work or \
                         security.user_share_percent",
                    ));
                }
            }
            AsyncWork::Login(login) => {
                let (name, password) = login.credentials();
                self.shared.security.verify(
                    name,
                    password,
                    &connection.state.peer,
                    move |verdict| {
                        loop_handle.send(Message::LoginVerified(slot_index, id, login, verdict))
                    },
                );
            }
            AsyncWork::BlockingRead(read) => {
                self.blocking_reads.add(WaitingReader { read, alive, send_reply: Box::new(done) });
            }
            AsyncWork::Subscription(read) => {
                let action =
                    Box::new(move |reply| loop_handle.send(Message::Push(slot_index, id, reply)));
                let awaited = BlockingRead::Changes(read);
                self.blocking_reads.add(WaitingReader { read: awaited, alive, send_reply: action });
                self.enqueue_ready(slot_index);
            }
            AsyncWork::Task(task) => {
                connection.start_task(task, move || {
                    std::task::Waker::from(Arc::new(TaskWaker {
                        loop_handle,
                        slot: slot_index,
                        id,
                    }))
                });
                connection.poll_task();
            }
        }
    }
}

/// Rejects a connection with an error and closes it. With TLS an error would need a handshake first, which
/// is too much work for a connection over the limit, so it is only closed.
fn reject(mut socket: TcpStream, tls: bool) {
    use std::io::Write;
    if !tls {
        let _ =
            socket.write(b"-ERR max number of clients reached: resp.connections is the limit\r\n");
    }
}

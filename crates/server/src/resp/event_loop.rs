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
use super::batches::{Executor, Receipts};
use super::connection::{Connection, Ending, State, Wish};
use super::deadlines::{Deadlines, Due, Step};
use super::feeds::{Awaited, Feeds, Reader};
use super::login::Login;
use super::reply::{Encoded, Reply};
use super::shared::Seat;
use super::slow_log::BATCH_LIMIT;
use super::stalls::Stalled;
use super::stream::Stream;
use super::tally::{Tally, count};
use super::work;
use super::workers::Workers;
use super::write_queue::{Batch, Waiter, WriteQueue, Writes};
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
const ACCEPTED_AT_ONCE: usize = 16;
/// Poll interval of a stopping loop, and the delay before `accept` is tried again after it failed (for
/// example because the process has no free file descriptor).
const PAUSE: Duration = Duration::from_millis(50);
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
    Connect(TcpStream, String, Seat),
    /// The reply for a suspended connection. The session id tells whether the slot still holds the same
    /// connection.
    Done(usize, u64, Encoded),
    Push(usize, u64, Reply),
    /// A connection's task can go on.
    GoOn(usize, u64),
    /// The result of verifying a login.
    LoggedIn(usize, u64, Box<Login>, Verdict),
    /// The receipts of the batch that the executor thread has finished.
    Executed(Receipts),
    Stop,
}

/// A handle for sending messages to a loop.
#[derive(Clone)]
struct Address {
    messages: Sender<Message>,
    waker: Arc<Waker>,
}

impl Address {
    fn send(&self, message: Message) {
        // A loop that has ended has no connections left, so a lost message does no harm.
        if self.messages.send(message).is_ok() {
            let _ = self.waker.wake();
        }
    }
}

/// The waker of a connection's task: tells the loop to poll the task again.
struct Bell {
    address: Address,
    place: usize,
    id: u64,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.address.send(Message::GoOn(self.place, self.id));
    }
}

/// The running RESP front end.
pub struct Handle {
    addresses: Vec<Address>,
    threads: Vec<JoinHandle<()>>,
}

impl Handle {
    /// Stops accepting connections, answers the requests already received, closes all connections and joins
    /// the threads.
    pub fn stop(self) {
        self.addresses.iter().for_each(|address| address.send(Message::Stop));
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
    shared.listens_at(listener.local_addr()?.port());
    let workers = Workers::start(shared.settings.workers, shared.settings.waiting_work)?;
    let feeds = Feeds::start(shared.clone())?;
    let mut loops = Vec::new();
    for _ in 0..shared.settings.effective_loops() {
        loops.push(Loop::new(shared.clone(), tls.clone(), workers.clone(), feeds.clone())?);
    }
    let addresses: Vec<Address> = loops.iter().map(|one| one.address.clone()).collect();
    if let Some(first) = loops.first_mut() {
        first.listen(TcpListener::from_std(listener), addresses.clone())?;
    }
    let mut threads = Vec::new();
    for (number, one) in loops.into_iter().enumerate() {
        let thread = std::thread::Builder::new().name(format!("mainstay-loop-{number}"));
        threads.push(thread.spawn(move || one.run())?);
    }
    Ok(Handle { addresses, threads })
}

struct Listening {
    listener: TcpListener,
    /// The loops, which receive the accepted connections round-robin.
    loops: Vec<Address>,
    next: usize,
    /// Set if connections were left in the accept queue, for which no further event comes: the delay before
    /// the next `accept`.
    again: Option<Duration>,
}

struct Loop {
    shared: Arc<Shared>,
    tls: Option<Tls>,
    poll: Poll,
    address: Address,
    inbox: Receiver<Message>,
    listening: Option<Listening>,
    connections: Slab<Connection>,
    deadlines: Deadlines,
    /// Connections with work to do. Users take turns, however many connections each of them has.
    ready: FairQueue<usize, (usize, u64)>,
    /// The connections served in this turn.
    served: Vec<usize>,
    writes: WriteQueue,
    /// The batch that the executor thread is executing, without its transactions.
    under_way: Option<Batch>,
    /// True if the last batch took longer than `SLOW_BATCH_US`.
    batch_was_slow: bool,
    /// Number of batches since the loop last served a connection without pending replies. Such a connection
    /// read, or may read next.
    batches_since_read: u32,
    /// Start time of the last batch.
    executed_us: u64,
    executor: Executor,
    buffer: Vec<u8>,
    workers: Workers,
    feeds: Feeds,
    tally: Arc<Tally>,
    /// Start time of this turn, and the last clock reading.
    began_us: u64,
    seen_us: u64,
    /// Set while the loop stops: the time at which it ends even if connections are left.
    stopping: Option<u64>,
}

impl Loop {
    fn new(
        shared: Arc<Shared>,
        tls: Option<Tls>,
        workers: Workers,
        feeds: Feeds,
    ) -> io::Result<Loop> {
        let poll = Poll::new()?;
        let (messages, inbox) = channel();
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let address = Address { messages, waker };
        let told = address.clone();
        Ok(Loop {
            writes: WriteQueue::default(),
            under_way: None,
            batch_was_slow: false,
            batches_since_read: 0,
            executed_us: 0,
            executor: Executor::start(shared.db.clone(), move |receipts| {
                told.send(Message::Executed(receipts))
            })?,
            tally: shared.figures.tally(),
            began_us: 0,
            seen_us: 0,
            shared,
            tls,
            poll,
            address,
            inbox,
            listening: None,
            connections: Slab::new(),
            deadlines: Deadlines::default(),
            ready: FairQueue::default(),
            served: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
            workers,
            feeds,
            stopping: None,
        })
    }

    fn listen(&mut self, mut listener: TcpListener, loops: Vec<Address>) -> io::Result<()> {
        self.poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        self.listening = Some(Listening { listener, loops, next: 0, again: None });
        Ok(())
    }

    fn run(mut self) {
        let mut events = Events::with_capacity(1024);
        while !self.is_over() {
            match self.poll.poll(&mut events, self.pause()) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return tracing::error!(%error, "waiting for sockets failed"),
            }
            let mut has_messages = false;
            for event in &events {
                match event.token() {
                    WAKER => has_messages = true,
                    LISTENER => self.accept(),
                    Token(place) => {
                        let hung_up = event.is_read_closed() || event.is_error();
                        self.note(place, event.is_readable(), hung_up);
                    }
                }
            }
            // Messages come after the events, because a message can free a slot and give it to a new
            // connection. An event of the old connection must not reach the new one.
            if has_messages {
                self.take_messages();
            }
            if self.accepts_again().is_some() {
                self.accept();
            }
            self.began_us = self.shared.ticks_us();
            self.turn();
            self.close_late();
        }
    }

    fn accepts_again(&self) -> Option<Duration> {
        self.listening.as_ref().and_then(|listening| listening.again)
    }

    fn is_over(&self) -> bool {
        self.stopping.is_some_and(|until_us| {
            self.connections.is_empty() || self.shared.ticks_us() >= until_us
        })
    }

    /// Returns the poll timeout.
    fn pause(&self) -> Option<Duration> {
        let can_write = self.under_way.is_none() && !self.writes.is_empty();
        if !self.ready.is_empty() || can_write {
            return Some(Duration::ZERO);
        }
        let pause = self.accepts_again().or(self.stopping.map(|_| PAUSE));
        pause
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
    fn close_late(&mut self) {
        if self.deadlines.next_us().is_none() {
            return;
        }
        let now_us = self.shared.ticks_us();
        while let Some(Due { place, id, step }) = self.deadlines.take_due(now_us) {
            let Some(connection) = self.connections.get_mut(place) else { continue };
            if connection.session.id != id || connection.has_done(step) {
                continue;
            }
            match step {
                // The client reads slowly, but it reads.
                Step::Goodbye if connection.takes_its_time() => {
                    self.limit_goodbye(place, id);
                }
                Step::Handshake | Step::Goodbye => self.close(place),
                Step::Reading | Step::Request | Step::Transaction => {
                    self.look_at_stall(place, step)
                }
                Step::Pace => {
                    connection.ends_wait();
                    self.list(place);
                }
                // The connection has logged in and was reset to unauthenticated since, which set a new
                // login deadline.
                Step::Login if now_us < connection.login_due_us => {}
                // The server is still verifying its password, so the delay is not the client's.
                Step::Login if connection.state == State::Resting => self.limit_login(place, id),
                Step::Login => {
                    let message =
                        "NOAUTH Authentication took too long: security.login_limit_ms is the limit";
                    connection.close(&Reply::error(message));
                    self.list(place);
                }
            }
        }
    }

    /// Handles the deadline of a read, a request or a transaction.
    fn look_at_stall(&mut self, place: usize, step: Step) {
        let Some(connection) = self.connections.get_mut(place) else { return };
        match connection.stalled(step) {
            Some(Stalled::Reader) => return self.close(place),
            Some(Stalled::Request) => {
                let limit = self.shared.settings.request_limit_ms;
                connection.close(&Reply::error(format!(
                    "ERR Protocol error: the rest of the request did not come within resp.request_limit_ms ({limit} ms)"
                )));
                self.list(place);
            }
            None => {}
        }
        self.limit_begun(place);
    }

    /// Sets deadlines for everything the connection has started and has no deadline for yet.
    fn limit_begun(&mut self, place: usize) {
        let Some(connection) = self.connections.get_mut(place) else { return };
        if connection.is_idle() {
            return;
        }
        let id = connection.session.id;
        for (step, limit_us) in connection.begun() {
            self.limit(Due { place, id, step }, limit_us);
        }
    }

    fn close(&mut self, place: usize) {
        let Some(connection) = self.connections.get_mut(place) else { return };
        connection.cut();
        // The requests in the batch are still executed. Their memory counts for this connection until then.
        if connection.owes() {
            return;
        }
        let mut connection = self.connections.remove(place);
        self.tell_ending(&connection);
        let _ = self.poll.registry().deregister(connection.socket());
    }

    fn note(&mut self, place: usize, readable: bool, hung_up: bool) {
        if let Some(connection) = self.connections.get_mut(place) {
            connection.note(readable, hung_up);
            self.list(place);
        }
    }

    fn list(&mut self, place: usize) {
        if let Some(connection) = self.connections.get_mut(place)
            && !std::mem::replace(&mut connection.listed, true)
        {
            self.ready.push(connection.session.owner(), (place, connection.session.id));
        }
    }

    fn take_messages(&mut self) {
        while let Ok(message) = self.inbox.try_recv() {
            match message {
                Message::Connect(socket, peer, seat) => self.connect(socket, peer, seat),
                Message::Done(place, id, reply) => self.tell(place, id, |it| it.wake_with(reply)),
                Message::Push(place, id, reply) => self.tell(place, id, |it| it.push(reply)),
                Message::GoOn(place, id) => self.tell(place, id, Connection::go_on),
                Message::LoggedIn(place, id, login, verdict) => {
                    self.tell(place, id, |it| it.logged_in(*login, verdict));
                }
                Message::Executed(receipts) => {
                    if let Some(batch) = self.under_way.take() {
                        self.pay(batch, receipts);
                    }
                }
                Message::Stop => self.stop(),
            }
        }
    }

    fn tell(&mut self, place: usize, id: u64, tell: impl FnOnce(&mut Connection)) {
        if let Some(connection) = self.connections.get_mut(place)
            && connection.session.id == id
        {
            tell(connection);
            self.list(place);
        }
    }

    /// Stops the loop: closes each connection once its requests are answered, including those not read from
    /// the socket yet.
    fn stop(&mut self) {
        let drain_us = self.shared.settings.drain_limit_ms * 1000;
        self.stopping = Some(self.shared.ticks_us() + drain_us);
        self.shared.stop_waiting();
        self.listening = None;
        let places: Vec<usize> = self.connections.iter().map(|(place, _)| place).collect();
        for place in places {
            if let Some(connection) = self.connections.get_mut(place) {
                connection.give_up();
            }
            self.note(place, true, false);
        }
    }

    fn accept(&mut self) {
        let Some(listening) = &mut self.listening else { return };
        let again = listening.again.replace(Duration::ZERO);
        for _ in 0..ACCEPTED_AT_ONCE {
            match listening.listener.accept() {
                Ok((socket, peer)) => {
                    let Some(seat) = self.shared.seat() else {
                        count(&self.shared.figures.rejected);
                        tracing::debug!(client = %peer, "a connection was refused: there are too many");
                        refuse(socket, self.tls.is_some());
                        continue;
                    };
                    count(&self.shared.figures.accepted);
                    listening.next = (listening.next + 1) % listening.loops.len();
                    listening.loops[listening.next].send(Message::Connect(
                        socket,
                        peer.to_string(),
                        seat,
                    ));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    listening.again = None;
                    return;
                }
                // For example, the process has no free file descriptor. The loop serves the existing
                // connections first.
                Err(error) => {
                    listening.again = Some(PAUSE);
                    // Warn only once per series of failures.
                    if again != Some(PAUSE) {
                        tracing::warn!(%error, "a connection was not accepted");
                    }
                    return;
                }
            }
        }
    }

    fn connect(&mut self, socket: TcpStream, peer: String, seat: Seat) {
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
        let place = entry.key();
        let connection = entry.insert(Connection::new(stream, &self.shared, peer, seat));
        connection.session.tally = self.tally.clone();
        let id = connection.session.id;
        let stranger = connection.session.user.is_none();
        let both = Interest::READABLE | Interest::WRITABLE;
        let registered = self.poll.registry().register(connection.socket(), Token(place), both);
        match registered {
            Ok(()) => self.list(place),
            Err(error) => {
                tracing::warn!(%error, "a connection was not registered");
                self.connections.remove(place);
            }
        }
        self.limit_handshake(place, id);
        if stranger {
            self.limit_login(place, id);
        }
    }

    /// Limits the time for the TLS handshake.
    fn limit_handshake(&mut self, place: usize, id: u64) {
        if let Some(tls) = &self.tls {
            let limit_us = u64::try_from(tls.handshake_limit().as_micros()).unwrap_or(u64::MAX);
            self.limit(Due { place, id, step: Step::Handshake }, limit_us);
        }
    }

    /// Limits the time in which an unauthenticated client has to log in.
    fn limit_login(&mut self, place: usize, id: u64) {
        let limit_us = self.shared.security.settings().login_limit_ms.saturating_mul(1000);
        if let Some(connection) = self.connections.get_mut(place) {
            connection.login_due_us = self.shared.ticks_us().saturating_add(limit_us);
        }
        self.limit(Due { place, id, step: Step::Login }, limit_us);
    }

    /// Limits the time in which the client of a closing connection has to read its last replies (the close
    /// deadline).
    fn limit_goodbye(&mut self, place: usize, id: u64) {
        let limit_us = self.shared.settings.drain_limit_ms.saturating_mul(1000);
        self.limit(Due { place, id, step: Step::Goodbye }, limit_us);
    }

    fn limit(&mut self, due: Due, limit_us: u64) {
        self.deadlines.set(self.shared.ticks_us().saturating_add(limit_us), due);
    }

    /// Serves ready connections until the time of the turn is used up. The rest come first in the next
    /// turn.
    fn turn(&mut self) {
        let turn_us = self.shared.settings.turn_us;
        // Connections that become ready during this turn wait for the next one.
        let ready = self.ready.len();
        let slice_us = turn_us / ready.clamp(1, SLICES) as u64;
        for _ in 0..ready {
            let Some((_, (place, id))) = self.ready.pop() else { break };
            self.serve(place, id, slice_us);
            if self.seen_us.saturating_sub(self.began_us) >= turn_us {
                break;
            }
        }
        self.tally.known_took(self.seen_us.saturating_sub(self.began_us));
        self.end_turn();
    }

    /// Sends the replies of the turn before the loop waits for the batch. It sends them all together,
    /// because a client woken by each single reply would take the processor in between.
    fn end_turn(&mut self) {
        let mut served = std::mem::take(&mut self.served);
        served.retain(|&place| {
            let owes = self.connections.get(place).is_some_and(Connection::owes);
            if !owes {
                self.finish(place);
            }
            owes
        });
        if self.under_way.is_none() && !self.writes.is_empty() {
            self.execute();
        }
        for place in served.drain(..) {
            // All other connections were completed and finished by `pay`.
            if self.connections.get(place).is_some_and(Connection::owes) {
                self.finish(place);
            }
        }
        self.served = served;
    }

    /// Takes requests from one connection for about `slice_us` microseconds.
    fn serve(&mut self, place: usize, id: u64, slice_us: u64) {
        let Some(connection) = self.connections.get_mut(place) else { return };
        if connection.session.id != id {
            return;
        }
        connection.listed = false;
        // The connection continues when its batch is complete. Until then, the loop only sends it earlier
        // replies.
        if connection.owes() {
            return self.served.push(place);
        }
        let before_us = self.seen_us.max(self.began_us);
        let was_known = connection.session.user.is_some();
        let gathered = self.writes.gathered();
        let first = gathered.len();
        let wish = connection.take_requests(slice_us, &mut self.buffer, gathered);
        self.seen_us = self.shared.ticks_us();
        let took_us = self.seen_us.saturating_sub(before_us);
        if self.shared.slow_log.is_slow(took_us) {
            let last = std::iter::once(connection.told());
            connection.session.note_slow(last, took_us);
        }
        if connection.owes() {
            let owner = connection.session.owner();
            let began_us = self.began_us;
            self.writes.put(Writes { owner, place, id, first, began_us });
        } else {
            // The connection dropped its requests of this turn, so nothing waits for these transactions.
            self.writes.drop_from(first);
            self.batches_since_read = 0;
        }
        // RESET makes the connection unauthenticated again. It then no longer counts for its user.
        if was_known && connection.session.user.is_none() {
            self.limit_login(place, id);
        }
        if let Some(wish) = wish {
            self.grant(place, wish);
        }
        self.served.push(place);
    }

    /// Executes the next batch, on the executor thread if other clients could send requests meanwhile.
    /// Completed connections continue in the next turn, so one that keeps writing does not delay the
    /// others.
    fn execute(&mut self) {
        let mut batch = self.writes.take();
        self.tally.batch(batch.transactions.len());
        self.executed_us = self.shared.ticks_us();
        self.batches_since_read = self.batches_since_read.saturating_add(1);
        let others_may_read = self.others_may_read(&batch);
        let mut transactions = std::mem::take(&mut batch.transactions);
        if others_may_read {
            match self.executor.take(transactions) {
                Ok(()) => {
                    self.under_way = Some(batch);
                    return;
                }
                Err(back) => transactions = back,
            }
        }
        let span = spans::batch(transactions.len());
        let receipts = span.in_scope(|| self.shared.db.execute_all(transactions));
        self.pay(batch, receipts);
    }

    /// Returns whether another client could send a request while the batch waits for the disk or for other
    /// writers.
    fn others_may_read(&self, batch: &Batch) -> bool {
        let Batch { transactions, waiters, .. } = batch;
        let usual = self.shared.settings.durability;
        let syncs = |one: &Transaction| one.durability.unwrap_or(usual) == Durability::Sync;
        // The handover to another thread and back costs a fifth of a write. The loop saves it while all
        // clients only write. A connection that is ready and was not served in this turn may be about to
        // read.
        let somebody_reads = self.batches_since_read <= UNREAD_BATCHES || !self.ready.is_empty();
        // A transaction of several steps may take long without an fsync, because each step may rewrite a
        // large record.
        self.connections.len() > waiters.len()
            && (somebody_reads && transactions.iter().any(syncs)
                || transactions.len() > SHORT_BATCH
                || transactions.iter().any(|one| one.steps.len() > SHORT_STEPS)
                || self.batch_was_slow
                || self.shared.db.is_busy())
    }

    /// Completes the queued replies of the connections in a batch from its receipts, and sends them.
    fn pay(&mut self, batch: Batch, receipts: Receipts) {
        let mut receipts = receipts.into_iter();
        self.seen_us = self.shared.ticks_us();
        self.batch_was_slow = self.seen_us.saturating_sub(self.executed_us) > SLOW_BATCH_US;
        let mut slow = BATCH_LIMIT;
        for Waiter { place, id, transactions, began_us } in batch.waiters {
            let mut own = receipts.by_ref().take(transactions);
            let took_us = self.seen_us.saturating_sub(began_us);
            let connection = self.connections.get_mut(place);
            if let Some(connection) = connection.filter(|it| it.session.id == id) {
                if slow > 0 && self.shared.slow_log.is_slow(took_us) {
                    slow -= connection.session.note_slow(connection.waiting().take(slow), took_us);
                }
                connection.pay(&mut own, took_us);
                self.finish(place);
            }
            // Drops the receipts of a connection that is gone, so that the next connection does not get
            // them.
            own.for_each(drop);
        }
    }

    /// Sends the replies of a connection, and closes the connection if it is over.
    fn finish(&mut self, place: usize) {
        let Some(connection) = self.connections.get_mut(place) else { return };
        if self.stopping.is_some() && connection.has_nothing() {
            connection.closes(Ending::Stopped);
        }
        if !connection.send() || connection.waits_for_nobody() {
            return self.close(place);
        }
        if connection.begins_to_leave() {
            let id = connection.session.id;
            return self.limit_goodbye(place, id);
        }
        if let Some(wait) = connection.begins_to_wait() {
            let id = connection.session.id;
            let wait_us = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
            self.limit(Due { place, id, step: Step::Pace }, wait_us);
            return self.limit_begun(place);
        }
        // A connection with pending replies continues when its batch is complete.
        if connection.has_more() && !connection.owes() {
            self.list(place);
        }
        self.limit_begun(place);
    }

    fn tell_ending(&self, connection: &Connection) {
        let client = &connection.session.peer;
        let why = connection.ending();
        match why {
            Ending::SlowReader => {
                count(&self.shared.figures.slow_readers);
                tracing::warn!(%client, "a connection was cut: it does not read its replies");
            }
            _ => tracing::debug!(%client, ?why, "a connection is over"),
        }
    }

    /// Starts the asynchronous work that a connection needs.
    fn grant(&mut self, place: usize, wish: Wish) {
        let Some(connection) = self.connections.get_mut(place) else { return };
        let id = connection.session.id;
        let address = self.address.clone();
        let alive = connection.session.alive.clone();
        // The worker encodes the reply, because encoding a long reply here would delay the other
        // connections.
        let protocol = connection.session.protocol;
        let done = move |reply: Reply| {
            address.send(Message::Done(place, id, Encoded::new(&reply, protocol)));
        };
        let address = self.address.clone();
        match wish {
            Wish::Work(job) => {
                let job = work::measured(&self.shared, connection, job);
                let user = connection.session.user.as_deref();
                if let Err(done) = self.workers.take(user, job, done) {
                    done(Reply::error(
                        "UNAVAILABLE too much long work is under way: try later, or raise resp.waiting_work or \
                         security.user_share_percent",
                    ));
                }
            }
            Wish::Login(login) => {
                let (name, password) = login.credentials();
                self.shared.security.verify(
                    name,
                    password,
                    &connection.session.peer,
                    move |verdict| address.send(Message::LoggedIn(place, id, login, verdict)),
                );
            }
            Wish::Wait(reading) => {
                self.feeds.take(Reader { awaited: reading, alive, tell: Box::new(done) });
            }
            Wish::Watch(reading) => {
                let tell = Box::new(move |reply| address.send(Message::Push(place, id, reply)));
                let awaited = Awaited::Changes(reading);
                self.feeds.take(Reader { awaited, alive, tell });
                self.list(place);
            }
            Wish::Task(task) => {
                connection.keep(task, move || {
                    std::task::Waker::from(Arc::new(Bell { address, place, id }))
                });
                connection.go_on();
            }
        }
    }
}

/// Rejects a connection with an error and closes it. With TLS an error would need a handshake first, which
/// is too much work for a connection over the limit, so it is only closed.
fn refuse(mut socket: TcpStream, tls: bool) {
    use std::io::Write;
    if !tls {
        let _ =
            socket.write(b"-ERR max number of clients reached: resp.connections is the limit\r\n");
    }
}

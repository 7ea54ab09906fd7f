//! The event loop: reads all sockets that are ready, does all they ask as one batch, answers.
//!
//! ```text
//!   poll -> take requests of all that are ready -> send what is known already
//!     ^                     |  batch
//!     |                     v
//!     +---- send <---- pay what is owed <---- execute_all: one sync for all
//! ```
//!
//! The loop's thread executes the batch and drives the log itself where nobody is expected to read meanwhile: no task and no wake-up
//! per command. Else a thread beside it does. Several loops share the connections.

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

/// What is read from a socket at once.
pub(super) const BUFFER_BYTES: usize = 64 << 10;
/// The parts of a turn: no connection takes more than one of them while others wait.
const SLICES: usize = 4;
/// The connections that are accepted in one turn: a flood of them does not hold up those that are there.
const ACCEPTED_AT_ONCE: usize = 16;
/// How often a loop that ends looks at the clock, and one that had no file for somebody tries again.
const PAUSE: Duration = Duration::from_millis(50);
/// A transaction of more steps is executed off the event loop, whatever it waits for.
const SHORT_STEPS: usize = 16;
/// A batch of more transactions goes to the writer in parts, and waits for room before each.
const SHORT_BATCH: usize = 1_024;
/// After so many batches without a read, nobody is expected to read while the next one waits for the disk.
const UNREAD_BATCHES: u32 = 64;
/// After a batch that took longer, the next one is executed off the event loop as well.
const SLOW_BATCH_US: u64 = 2_000;

/// What a loop is told by others.
enum Message {
    Connect(TcpStream, String, Seat),
    /// The reply to a connection that rests; the number tells whether it is still the same one.
    Done(usize, u64, Encoded),
    Push(usize, u64, Reply),
    /// A connection's task can go on.
    GoOn(usize, u64),
    /// What became of a login.
    LoggedIn(usize, u64, Box<Login>, Verdict),
    /// The batch that was handed over is done.
    Executed(Receipts),
    Stop,
}

/// The way to a loop.
#[derive(Clone)]
struct Address {
    messages: Sender<Message>,
    waker: Arc<Waker>,
}

impl Address {
    fn send(&self, message: Message) {
        // A loop that has ended has no connections that could miss it.
        if self.messages.send(message).is_ok() {
            let _ = self.waker.wake();
        }
    }
}

/// Tells the loop that a connection's task can go on.
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

/// The face as it runs.
pub struct Handle {
    addresses: Vec<Address>,
    threads: Vec<JoinHandle<()>>,
}

impl Handle {
    /// Takes no new connections, answers what was asked, closes all, and ends.
    pub fn stop(self) {
        self.addresses.iter().for_each(|address| address.send(Message::Stop));
        for thread in self.threads {
            // It ends this way or by a panic, which was printed then.
            let _ = thread.join();
        }
    }
}

/// Serves a listener, without TLS.
pub fn serve(listener: std::net::TcpListener, shared: &Arc<Shared>) -> io::Result<Handle> {
    serve_with(listener, None, shared)
}

/// Serves a listener, with TLS or without.
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
    /// Who takes the connections, in turn.
    loops: Vec<Address>,
    next: usize,
    /// Some were left, and no event will tell of those again: the time after which to accept again.
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
    /// Connections with something to do. Users take turns, however many connections each has.
    ready: FairQueue<usize, (usize, u64)>,
    /// The connections that this turn served.
    served: Vec<usize>,
    writes: WriteQueue,
    /// The batch under way, while there is one, without its transactions.
    under_way: Option<Batch>,
    /// The last batch took long.
    batch_was_slow: bool,
    /// Batches since a connection was served that waits for none: it read, or is about to.
    batches_since_read: u32,
    /// When the last batch was begun.
    executed_us: u64,
    executor: Executor,
    buffer: Vec<u8>,
    workers: Workers,
    feeds: Feeds,
    tally: Arc<Tally>,
    /// When this turn began, and when the clock was looked at last.
    began_us: u64,
    seen_us: u64,
    /// Set when it shall end: until when it answers.
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
        let done = move |receipts| told.send(Message::Executed(receipts));
        Ok(Loop {
            writes: WriteQueue::default(),
            under_way: None,
            batch_was_slow: false,
            batches_since_read: 0,
            executed_us: 0,
            executor: Executor::start(shared.db.clone(), done)?,
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
            // Afterwards: a place that they free and give to another must not be met by an event of the one before.
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

    /// How long it may wait for sockets.
    fn pause(&self) -> Option<Duration> {
        let can_write = self.under_way.is_none() && !self.writes.is_empty();
        if !self.ready.is_empty() || can_write {
            return Some(Duration::ZERO);
        }
        let pause = self.accepts_again().or(self.stopping.map(|_| PAUSE));
        let until_due =
            |at_us: u64| Duration::from_micros(at_us.saturating_sub(self.shared.ticks_us()));
        pause.into_iter().chain(self.deadlines.next_us().map(until_due)).min()
    }

    /// Closes those who have not done in time what they had limited time for.
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
                // It is slow, but it reads.
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
                // It has logged in since, and became a stranger again: its time began anew.
                Step::Login if now_us < connection.login_due_us => {}
                // Its password is being verified: that is not its fault.
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

    /// The time is over for something that a connection has begun.
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

    /// Sets deadlines for the things that a connection has begun.
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
        // Its requests are still executed, and their memory counts as its own until then.
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

    /// Closes all when what they have asked is answered, also what was not read yet.
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
                // Out of files, for example: those who wait are served first.
                Err(error) => {
                    listening.again = Some(PAUSE);
                    // Once is enough.
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
        // Replies are whole already: waiting for more would only delay them.
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
        let (id, stranger) = (connection.session.id, connection.session.user.is_none());
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

    /// Whoever comes to TLS has only so much time until it can be talked to.
    fn limit_handshake(&mut self, place: usize, id: u64) {
        if let Some(tls) = &self.tls {
            let limit_us = u64::try_from(tls.handshake_limit().as_micros()).unwrap_or(u64::MAX);
            self.limit(Due { place, id, step: Step::Handshake }, limit_us);
        }
    }

    /// Whoever has to say who they are has only so much time for it.
    fn limit_login(&mut self, place: usize, id: u64) {
        let limit_us = self.shared.security.settings().login_limit_ms.saturating_mul(1000);
        if let Some(connection) = self.connections.get_mut(place) {
            connection.login_due_us = self.shared.ticks_us().saturating_add(limit_us);
        }
        self.limit(Due { place, id, step: Step::Login }, limit_us);
    }

    /// Whoever is told the last has only so much time until it reads on.
    fn limit_goodbye(&mut self, place: usize, id: u64) {
        let limit_us = self.shared.settings.drain_limit_ms.saturating_mul(1000);
        self.limit(Due { place, id, step: Step::Goodbye }, limit_us);
    }

    fn limit(&mut self, due: Due, limit_us: u64) {
        self.deadlines.set(self.shared.ticks_us().saturating_add(limit_us), due);
    }

    /// Serves whoever is ready until the turn has had its time; the others come first in the next one.
    fn turn(&mut self) {
        let turn_us = self.shared.settings.turn_us;
        // Who is listed meanwhile comes in the next turn.
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

    /// Sends the replies of the turn before it waits for the batch. All at once: a client that is woken by each reply would take the
    /// processor in between.
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
            // The others are paid, and finished with.
            if self.connections.get(place).is_some_and(Connection::owes) {
                self.finish(place);
            }
        }
        self.served = served;
    }

    /// Takes the requests of one connection, for about so long.
    fn serve(&mut self, place: usize, id: u64, slice_us: u64) {
        let Some(connection) = self.connections.get_mut(place) else { return };
        if connection.session.id != id {
            return;
        }
        connection.listed = false;
        // It goes on when it is paid. Until then it is sent what came before.
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
            let (owner, began_us) = (connection.session.owner(), self.began_us);
            self.writes.put(Writes { owner, place, id, first, began_us });
        } else {
            // It has given up what it asked in this turn.
            self.writes.drop_from(first);
            self.batches_since_read = 0;
        }
        // Whoever said RESET is a stranger again, and counts as nobody's connection.
        if was_known && connection.session.user.is_none() {
            self.limit_login(place, id);
        }
        if let Some(wish) = wish {
            self.grant(place, wish);
        }
        self.served.push(place);
    }

    /// Does the next batch, or has it done where others could ask meanwhile. Those who are paid go on in the next turn: one that
    /// waits again and again holds up nobody else.
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

    /// Whether somebody could ask for something while the batch waits for the disk or for other writers.
    fn others_may_read(&self, batch: &Batch) -> bool {
        let Batch { transactions, waiters, .. } = batch;
        let usual = self.shared.settings.durability;
        let syncs = |one: &Transaction| one.durability.unwrap_or(usual) == Durability::Sync;
        // The way to another thread and back costs a fifth of a write, which is saved while all clients only write. Whoever is
        // ready and was not served in this turn may be about to read.
        let somebody_reads = self.batches_since_read <= UNREAD_BATCHES || !self.ready.is_empty();
        // One of several commands may take long without a sync: each of them may write a large record anew.
        let is_long = |one: &Transaction| one.steps.len() > SHORT_STEPS;
        self.connections.len() > waiters.len()
            && (somebody_reads && transactions.iter().any(syncs)
                || transactions.len() > SHORT_BATCH
                || transactions.iter().any(is_long)
                || self.batch_was_slow
                || self.shared.db.is_busy())
    }

    /// Pays those who waited for a batch, from its receipts, and sends it.
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
            // Those of a connection that is gone: nobody else is given them.
            own.for_each(drop);
        }
    }

    /// Sends, and drops what is over.
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
        // Whoever is owed something goes on when it is paid.
        if connection.has_more() && !connection.owes() {
            self.list(place);
        }
        self.limit_begun(place);
    }

    fn tell_ending(&self, connection: &Connection) {
        let (client, why) = (&connection.session.peer, connection.ending());
        match why {
            Ending::SlowReader => {
                count(&self.shared.figures.slow_readers);
                tracing::warn!(%client, "a connection was cut: it does not read its replies");
            }
            _ => tracing::debug!(%client, ?why, "a connection is over"),
        }
    }

    /// Has others do what a connection wants.
    fn grant(&mut self, place: usize, wish: Wish) {
        let Some(connection) = self.connections.get_mut(place) else { return };
        let (id, address, alive) =
            (connection.session.id, self.address.clone(), connection.session.alive.clone());
        // A long reply is written by whoever made it: the loop has others to serve.
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
                let told =
                    move |verdict| address.send(Message::LoggedIn(place, id, login, verdict));
                self.shared.security.verify(name, password, &connection.session.peer, told);
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
                let waker = move || std::task::Waker::from(Arc::new(Bell { address, place, id }));
                connection.keep(task, waker);
                connection.go_on();
            }
        }
    }
}

/// Says why, and hangs up. Inside TLS that would take a handshake first, which is too much for somebody
/// who is one too many.
fn refuse(mut socket: TcpStream, tls: bool) {
    use std::io::Write;
    if !tls {
        let _ =
            socket.write(b"-ERR max number of clients reached: resp.connections is the limit\r\n");
    }
}

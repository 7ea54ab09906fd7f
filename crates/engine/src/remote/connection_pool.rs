//! The link to a server: what all handles of a served database share.
//!
//! ```text
//!   writes --> one connection, pipelined        reads --> another: they never wait for a sync
//!   open transactions, views of the past, feeds, long work --> a seat: a connection for itself
//! ```

use super::call::{Answering, PendingCall, RetrySafety, request};
use super::callback_thread::CallbackThread;
use super::dedicated::DedicatedConnection;
use super::dial::Limits;
use super::failure;
use super::in_flight_limit::InFlightLimiter;
use super::oneshot::{Oneshot, wait, wait_within};
use super::options::Options;
use super::reconnect::{self, Tasks, WantedConnection};
use super::resp;
use super::socket::{Socket, WriteTurn};
use crate::base::clock::{Clock, SystemClock};
use crate::wire::{
    self, AdminRequest, ReadOp, ReadReply, ReadRequest, TransactionReply, TransactionRequest,
};
use mainstay_model::{
    Answer, At, Code, Command, Error, Receipt, Result, Revision, SessionCommand, Step, Transaction,
};
use parking_lot::{Condvar, Mutex};
use serde::de::DeserializeOwned;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How many connections are kept for the next seat.
const IDLE_LIMIT: usize = 8;

/// How often a seat is taken where its connection broke at once.
const SEAT_ATTEMPTS: usize = 3;

/// A shared connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedConnection {
    Writes,
    Reads,
}

impl SharedConnection {
    pub const ALL: [SharedConnection; 2] = [SharedConnection::Writes, SharedConnection::Reads];
    pub const COUNT: usize = SharedConnection::ALL.len();

    fn of(nature: RetrySafety) -> SharedConnection {
        match nature {
            RetrySafety::Read | RetrySafety::Errand => SharedConnection::Reads,
            RetrySafety::Named | RetrySafety::Once | RetrySafety::Commit | RetrySafety::Held => {
                SharedConnection::Writes
            }
        }
    }
}

/// What handles hold: when the last one goes, the connections end.
pub(crate) struct ConnectionPool {
    pub inner: Arc<PoolShared>,
}

/// What handles and the link's threads share.
pub(crate) struct PoolShared {
    pub options: Options,
    writing: WriteTurn,
    clock: SystemClock,
    room: Arc<InFlightLimiter>,
    lanes: [Mutex<Option<Arc<Socket>>>; SharedConnection::COUNT],
    pub tasks: Mutex<Tasks>,
    pub wake: Condvar,
    /// The keeper may be asleep although something is sent now.
    pub asleep: AtomicBool,
    /// All connections, for those who look after them.
    sockets: Mutex<Vec<Weak<Socket>>>,
    idle: Mutex<Vec<Arc<Socket>>>,
    calls: CallbackThread,
    closed: AtomicBool,
    /// The newest revision that was heard of.
    known: AtomicU64,
}

impl ConnectionPool {
    /// A link that connects when it has to.
    pub fn start(options: Options, writing: WriteTurn) -> Result<Arc<ConnectionPool>> {
        let inner = Arc::new(PoolShared {
            options,
            writing,
            clock: SystemClock::new(),
            room: Arc::default(),
            lanes: Default::default(),
            tasks: Mutex::default(),
            wake: Condvar::new(),
            asleep: AtomicBool::new(false),
            sockets: Mutex::default(),
            idle: Mutex::default(),
            calls: CallbackThread::default(),
            closed: AtomicBool::new(false),
            known: AtomicU64::new(0),
        });
        let kept = inner.clone();
        let thread = std::thread::Builder::new().name("mainstay-link".to_owned());
        thread.spawn(move || reconnect::run(&kept)).map_err(|error| no_thread(&error))?;
        Ok(Arc::new(ConnectionPool { inner }))
    }

    /// Connects in this thread, once.
    pub fn connect_now(&self) -> Result<()> {
        let socket = self.inner.open()?;
        self.inner.publish(SharedConnection::Reads, socket);
        Ok(())
    }

    /// Makes sure that there is a server of ours.
    pub async fn greet(&self) -> Result<()> {
        self.revision().await.map(|_| ())
    }

    /// Ends all connections; what is under way is told.
    pub fn close(&self) {
        self.inner.close();
    }

    /// Executes a transaction.
    pub async fn execute(&self, transaction: &Transaction) -> Result<Receipt> {
        let packed @ EncodedTransaction { nature, .. } = pack(transaction)?;
        let slot: Arc<Oneshot<_>> = Arc::default();
        self.send_packed(packed, Answering::Slot(slot.clone())).await;
        self.inner.receipt(nature, slot.answer().await)
    }

    /// Executes a transaction and waits for it. It is kept out of its callers, whose other way is
    /// short.
    #[cold]
    #[inline(never)]
    pub fn execute_and_wait(&self, transaction: &Transaction) -> Result<Receipt> {
        wait(self.execute(transaction))
    }

    /// Executes transactions in their order, side by side. One that takes a while goes another way, so it
    /// waits for all before it, and all behind it wait for it.
    pub fn execute_all(
        self: &Arc<ConnectionPool>,
        transactions: &[Transaction],
    ) -> Vec<Result<Receipt>> {
        let is_short = |transaction: &Transaction| !transaction.takes_a_while();
        let parts = transactions.chunk_by(|one, next| is_short(one) && is_short(next));
        parts.flat_map(|part| self.execute_part(part)).collect()
    }

    fn execute_part(self: &Arc<ConnectionPool>, part: &[Transaction]) -> Vec<Result<Receipt>> {
        let sent: Vec<SubmittedRequest> =
            part.iter().map(|transaction| self.submit(transaction)).collect();
        sent.iter().map(SubmittedRequest::wait).collect()
    }

    /// Sends a transaction; its answer will be in the slot.
    pub fn submit(self: &Arc<ConnectionPool>, transaction: &Transaction) -> SubmittedRequest {
        let slot: Arc<Oneshot<_>> = Arc::default();
        let nature = match pack(transaction) {
            Ok(packed @ EncodedTransaction { nature, .. }) => {
                wait(self.send_packed(packed, Answering::Slot(slot.clone())));
                nature
            }
            Err(error) => {
                slot.put(Err(error));
                RetrySafety::Once
            }
        };
        SubmittedRequest { slot, nature, link: self.clone() }
    }

    /// Sends a transaction; the callback gets its answer, on a thread for callbacks.
    pub fn submit_with(
        self: &Arc<ConnectionPool>,
        transaction: &Transaction,
        done: impl FnOnce(Result<Receipt>) + Send + 'static,
    ) {
        let packed = match pack(transaction) {
            Ok(packed) => packed,
            Err(error) => {
                let permit = wait(self.inner.room.enter(0));
                return self.inner.calls.post(Some(permit), Box::new(move || done(Err(error))));
            }
        };
        let (link, nature) = (self.clone(), packed.nature);
        let called = move |answer, permit| {
            let inner = link.inner.clone();
            // The link lives until the callback is done.
            inner.calls.post(permit, Box::new(move || done(link.inner.receipt(nature, answer))));
        };
        wait(self.send_packed(packed, Answering::Callback(Box::new(called))));
    }

    /// Runs a command by itself.
    pub async fn run(&self, branch: &str, command: Command) -> Result<Answer> {
        let receipt = self.execute(&Transaction::on(branch).step(command)).await?;
        receipt.into_first()
    }

    /// Reads what is newest on a branch.
    pub async fn look(&self, branch: &str, read: ReadOp) -> Result<ReadReply> {
        let takes_a_while = read.takes_a_while();
        let look = ReadRequest { branch: branch.to_owned(), at: At::Latest, read };
        let bytes = request("WIRE.READ", &wire::encode(&look)?);
        match takes_a_while {
            true => self.errand(&bytes, RetrySafety::Errand, Duration::ZERO).await,
            false => decode(RetrySafety::Read, self.call(bytes, RetrySafety::Read).await),
        }
    }

    /// Asks something about the database.
    pub async fn ask<T: DeserializeOwned>(&self, question: AdminRequest) -> Result<T> {
        let bytes = request("WIRE.ASK", &wire::encode(&question)?);
        let nature = if question.only_looks() { RetrySafety::Read } else { RetrySafety::Once };
        if !question.takes_a_while() {
            return decode(nature, self.call(bytes, nature).await);
        }
        let extra = match question {
            AdminRequest::WaitFor { wait_ms, .. } | AdminRequest::Tail { wait_ms, .. } => {
                Duration::from_millis(wait_ms)
            }
            _ => Duration::ZERO,
        };
        let nature = if question.only_looks() { RetrySafety::Errand } else { nature };
        self.errand(&bytes, nature, extra).await
    }

    /// Has something done on a seat, again if its connection broke and it only looks.
    async fn errand<T: DeserializeOwned>(
        &self,
        bytes: &[u8],
        nature: RetrySafety,
        extra: Duration,
    ) -> Result<T> {
        let seat = self.seat().await?;
        let answer = seat.call(bytes.to_vec(), nature, extra).await;
        match answer {
            Err(error) if nature == RetrySafety::Errand && error.code() == Code::Io => {
                let seat = self.seat().await?;
                decode(nature, seat.call(bytes.to_vec(), nature, extra).await)
            }
            answer => decode(nature, answer),
        }
    }

    /// The newest visible revision.
    pub async fn revision(&self) -> Result<Revision> {
        let revision = self.ask(AdminRequest::Revision).await?;
        self.inner.learn(revision);
        Ok(revision)
    }

    /// The newest revision that was heard of.
    pub fn known(&self) -> Revision {
        self.inner.known.load(Ordering::Acquire)
    }

    /// A connection of one's own.
    pub async fn seat(&self) -> Result<DedicatedConnection> {
        self.inner.check_open()?;
        match self.inner.take_idle() {
            Some(socket) => Ok(DedicatedConnection::new(self.inner.clone(), socket)),
            None => self.inner.want_seat().answer().await,
        }
    }

    /// A seat on which the server holds something, and the revision that this reads.
    pub async fn hold(&self, act: &TransactionRequest) -> Result<(DedicatedConnection, Revision)> {
        let mut left = SEAT_ATTEMPTS;
        loop {
            left -= 1;
            let mut seat = self.seat().await?;
            match seat.act(act).await {
                Ok(TransactionReply::Holds(revision)) => return Ok((seat, revision)),
                Ok(_) => return Err(Answer::mismatch()),
                // A connection that was kept for this may have ended meanwhile.
                Err(error) if error.code() == Code::Io && left > 0 => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn call(&self, bytes: Vec<u8>, nature: RetrySafety) -> Result<Vec<u8>> {
        let slot: Arc<Oneshot<_>> = Arc::default();
        self.send(bytes, nature, Answering::Slot(slot.clone())).await;
        slot.answer().await
    }

    async fn send(&self, bytes: Vec<u8>, nature: RetrySafety, done: Answering) {
        let call = self.admit(bytes, nature, done).await;
        self.inner.start(SharedConnection::of(nature), call);
    }

    /// Sends a transaction; nobody has to wait behind one that takes a while.
    async fn send_packed(&self, packed: EncodedTransaction, done: Answering) {
        let EncodedTransaction { bytes, nature, takes_a_while } = packed;
        if !takes_a_while {
            return self.send(bytes, nature, done).await;
        }
        let call = self.admit(bytes, nature, done).await;
        match self.seat().await {
            Ok(seat) => seat.carry(call),
            Err(error) => call.fail(error),
        }
    }

    /// A call that there is room for.
    async fn admit(&self, bytes: Vec<u8>, nature: RetrySafety, done: Answering) -> PendingCall {
        let permit = self.inner.room.enter(bytes.len()).await;
        self.inner.call(bytes, nature, done, Some(permit), Duration::ZERO)
    }
}

impl Drop for ConnectionPool {
    fn drop(&mut self) {
        self.inner.close();
    }
}

impl PoolShared {
    pub fn now_us(&self) -> u64 {
        self.clock.monotonic_us()
    }

    pub fn check_open(&self) -> Result<()> {
        match self.closed.load(Ordering::Acquire) {
            true => Err(failure::closed()),
            false => Ok(()),
        }
    }

    fn learn(&self, revision: Revision) {
        self.known.fetch_max(revision, Ordering::AcqRel);
    }

    fn receipt(&self, nature: RetrySafety, answer: Result<Vec<u8>>) -> Result<Receipt> {
        let receipt: Receipt = decode(nature, answer)?;
        self.learn(receipt.revision);
        Ok(receipt)
    }

    /// A call with its limits; `extra` is what the server is told to wait.
    pub fn call(
        &self,
        bytes: Vec<u8>,
        nature: RetrySafety,
        done: Answering,
        permit: Option<super::in_flight_limit::InFlightPermit>,
        extra: Duration,
    ) -> PendingCall {
        let mut call = PendingCall::new(bytes, nature, done, permit);
        call.limit_us = micros(self.options.timeout.saturating_add(extra));
        call.give_up_us = self.patience_us();
        call
    }

    fn patience_us(&self) -> u64 {
        self.now_us().saturating_add(micros(self.options.patience))
    }

    /// Sends a call on a shared connection, or leaves it to the keeper.
    fn start(&self, lane: SharedConnection, mut call: PendingCall) {
        if let Err(error) = self.check_open() {
            return call.fail(error);
        }
        loop {
            while let Some(socket) = self.on_lane(lane) {
                match socket.send(call, self.now_us()) {
                    Ok(()) => return self.wake_keeper(),
                    Err(back) => call = back,
                }
            }
            let mut tasks = self.tasks.lock();
            if tasks.closed {
                drop(tasks);
                return call.fail(failure::closed());
            }
            // A connection is published under this lock: what is put here now is sent before.
            if self.on_lane(lane).is_none() {
                tasks.calls[lane as usize].push_back(call);
                self.wake.notify_one();
                return;
            }
        }
    }

    /// The lane's connection, if there is a sound one.
    pub fn on_lane(&self, lane: SharedConnection) -> Option<Arc<Socket>> {
        let mut place = self.lanes[lane as usize].lock();
        if place.as_ref().is_some_and(|socket| socket.is_broken()) {
            *place = None;
        }
        place.clone()
    }

    /// Lets everybody use a connection.
    pub fn publish(&self, lane: SharedConnection, socket: Arc<Socket>) {
        *self.lanes[lane as usize].lock() = Some(socket);
    }

    /// Has the keeper look after what was sent.
    pub fn wake_keeper(&self) {
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            drop(self.tasks.lock());
            self.wake.notify_one();
        }
    }

    /// All connections that are not over.
    pub fn sockets(&self) -> Vec<Arc<Socket>> {
        let mut sockets = self.sockets.lock();
        sockets.retain(|socket| socket.strong_count() > 0);
        sockets.iter().filter_map(Weak::upgrade).collect()
    }

    /// A new connection, on which everything is agreed upon.
    pub fn open(self: &Arc<PoolShared>) -> Result<Arc<Socket>> {
        self.check_open()?;
        let Options { address, patience, timeout, .. } = &self.options;
        let unreachable = |error: &_| failure::unreachable(address, error);
        let limits = Limits { connect: *patience, write: *timeout };
        let stream = self.options.dial.dial(address, limits).map_err(|e| unreachable(&e))?;
        let (ticking, losing) = (self.clone(), self.clone());
        let socket = Socket::start(
            stream,
            self.writing,
            move || ticking.now_us(),
            move |socket| losing.lost(socket),
        );
        let socket = socket.map_err(|error| no_thread(&error))?;
        self.sockets.lock().push(Arc::downgrade(&socket));
        // Whoever closes from here on finds it; whoever did before is seen.
        let agreed = self.check_open().and_then(|()| self.shake_hands(&socket));
        agreed.inspect_err(|_| socket.hang_up())?;
        Ok(socket)
    }

    /// Whether one more seat may have a connection. Those of the lanes are not for seats.
    pub fn check_seats(&self) -> Result<()> {
        let shared =
            SharedConnection::ALL.iter().filter(|lane| self.on_lane(**lane).is_some()).count();
        let sound = self.sockets().iter().filter(|socket| !socket.is_broken()).count();
        let limit = self.options.connections;
        if sound.saturating_sub(shared) < limit.saturating_sub(SharedConnection::COUNT) {
            return Ok(());
        }
        let message = format!("{limit} connections are in use: close some, or raise the limit");
        Err(Error::new(Code::QueueFull, message))
    }

    fn shake_hands(&self, socket: &Socket) -> Result<()> {
        let mut words = vec!["HELLO", "3"];
        if let Some((user, password)) = &self.options.login {
            words.extend(["AUTH", user, password]);
        }
        let slot: Arc<Oneshot<_>> = Arc::default();
        let done = Answering::Slot(slot.clone());
        let call = self.call(resp::encode(&words), RetrySafety::Errand, done, None, Duration::ZERO);
        socket.send(call, self.now_us()).map_err(|_| self.ended(socket, RetrySafety::Errand))?;
        match wait_within(slot.answer(), self.options.patience) {
            Some(answer) => answer.map(|_| ()),
            None => {
                let lost = failure::lost(RetrySafety::Errand, &self.options.address, true);
                Err(Error::new(Code::Io, lost.message()))
            }
        }
    }

    /// Ends a connection and decides about calls that are left without an answer.
    fn lost(&self, socket: &Socket) {
        let silent = socket.was_silent();
        // Nobody sees that it is over before what is sent again is in its place: who comes later
        // comes behind it.
        let mut tasks = self.tasks.lock();
        let closed = tasks.closed;
        let (again, over): (Vec<PendingCall>, Vec<PendingCall>) = socket
            .end()
            .into_iter()
            .partition(|call| call.has_attempts_left() && !silent && !closed);
        self.send_again(&mut tasks, again);
        drop(tasks);
        for call in over {
            let error = match closed && !call.writes() {
                true => failure::closed(),
                false => self.ended(socket, call.nature),
            };
            call.fail(error);
        }
    }

    /// Why there is no answer on a connection that is over.
    fn ended(&self, socket: &Socket, nature: RetrySafety) -> Error {
        match (nature, socket.why()) {
            (RetrySafety::Read | RetrySafety::Errand, Some(why)) => why.clone(),
            _ => failure::lost(nature, &self.options.address, socket.was_silent()),
        }
    }

    /// What is sent again comes before what waits already.
    fn send_again(&self, tasks: &mut Tasks, calls: Vec<PendingCall>) {
        let give_up_us = self.patience_us();
        for mut call in calls.into_iter().rev() {
            call.try_again(give_up_us);
            tasks.calls[SharedConnection::of(call.nature) as usize].push_front(call);
        }
        self.wake.notify_one();
    }

    /// Tells a call that its connection was over before it could be sent.
    pub fn not_sent(&self, call: PendingCall) {
        let nature = match call.nature {
            RetrySafety::Commit | RetrySafety::Held => RetrySafety::Held,
            _ => RetrySafety::Errand,
        };
        call.fail(failure::lost(nature, &self.options.address, false));
    }

    /// A connection that was kept for a seat.
    pub fn take_idle(&self) -> Option<Arc<Socket>> {
        let mut idle = self.idle.lock();
        while let Some(socket) = idle.pop() {
            if !socket.is_broken() {
                return Some(socket);
            }
        }
        None
    }

    /// Keeps a connection for the next seat.
    pub fn give_back(&self, socket: Arc<Socket>) {
        let mut idle = self.idle.lock();
        match idle.len() < IDLE_LIMIT && self.check_open().is_ok() {
            true => idle.push(socket),
            false => socket.hang_up(),
        }
    }

    fn want_seat(&self) -> Arc<Oneshot<Result<DedicatedConnection>>> {
        let slot: Arc<Oneshot<_>> = Arc::default();
        let mut tasks = self.tasks.lock();
        match tasks.closed {
            true => slot.put(Err(failure::closed())),
            false => {
                let give_up_us = self.patience_us();
                tasks.seats.push_back(WantedConnection { slot: slot.clone(), give_up_us });
                self.wake.notify_one();
            }
        }
        slot
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.tasks.lock().closed = true;
        self.wake.notify_one();
        self.idle.lock().clear();
        self.sockets().iter().for_each(|socket| socket.hang_up());
    }
}

/// A transaction that was sent.
pub(crate) struct SubmittedRequest {
    slot: Arc<Oneshot<Result<Vec<u8>>>>,
    nature: RetrySafety,
    /// What is under way is finished before the connections end.
    link: Arc<ConnectionPool>,
}

impl SubmittedRequest {
    pub fn is_done(&self) -> bool {
        self.slot.is_done()
    }

    pub fn wait(&self) -> Result<Receipt> {
        wait(std::future::poll_fn(|context| self.poll(context)))
    }

    pub fn poll(&self, context: &std::task::Context<'_>) -> std::task::Poll<Result<Receipt>> {
        self.slot.poll(context).map(|answer| self.link.inner.receipt(self.nature, answer))
    }
}

/// A transaction as a request.
struct EncodedTransaction {
    bytes: Vec<u8>,
    /// What may be done about it when its answer does not come.
    nature: RetrySafety,
    takes_a_while: bool,
}

fn pack(transaction: &Transaction) -> Result<EncodedTransaction> {
    let Transaction { steps, otherwise, guards, .. } = transaction;
    let instead = otherwise.as_ref().map_or(0, Vec::len);
    let frame = wire::encode(transaction)?;
    let is_long = steps.len().max(instead).max(guards.len()) > wire::LIST_LIMIT;
    if is_long || frame.len() > wire::FRAME_LIMIT_BYTES {
        let message = "the transaction has more bytes, commands or guards than a server takes";
        return Err(Error::new(Code::TransactionTooLarge, message));
    }
    let nature = nature(transaction);
    let (bytes, takes_a_while) = (request("WIRE.EXECUTE", &frame), transaction.takes_a_while());
    Ok(EncodedTransaction { bytes, nature, takes_a_while })
}

/// What may be done about a transaction whose answer does not come.
fn nature(transaction: &Transaction) -> RetrySafety {
    match (&transaction.request, transaction.steps.as_slice()) {
        (Some(_), _) => RetrySafety::Named,
        // To say twice that one is there is as good as once.
        (None, [Step { command: Command::Session(command), .. }])
            if command.reads() || matches!(command, SessionCommand::KeepAlive { .. }) =>
        {
            RetrySafety::Read
        }
        (None, _) => RetrySafety::Once,
    }
}

/// What an answer holds.
pub(crate) fn decode<T: DeserializeOwned>(
    nature: RetrySafety,
    answer: Result<Vec<u8>>,
) -> Result<T> {
    match wire::decode::<Result<T>>(&answer?) {
        Ok(answer) => answer,
        Err(error) => Err(failure::strange(nature, &error)),
    }
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn no_thread(error: &std::io::Error) -> Error {
    Error::new(Code::Io, format!("a thread of the connection could not be started: {error}"))
}

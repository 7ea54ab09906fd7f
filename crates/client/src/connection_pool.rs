//! Connection pool: shared by all handles of a served database.
//!
//! ```text
//!   writes --> one connection, pipelined        reads --> another: reads never wait for an fsync
//!   open transactions, views of the past, feeds, long work --> a dedicated connection each
//! ```

use super::call::{Answering, PendingCall, RetrySafety, request};
use super::callback_thread::CallbackThread;
use super::dedicated::DedicatedConnection;
use super::dial::Limits;
use super::failure;
use super::in_flight_limit::InFlightLimiter;
use super::oneshot::{Oneshot, wait, wait_within};
use super::reconnect::{self, Tasks, WantedConnection};
use super::resp;
use super::settings::Settings;
use super::socket::{Socket, WriteTurn};
use mainstay_model::wire::{
    self, AdminRequest, ReadOp, ReadReply, ReadRequest, TransactionReply, TransactionRequest,
};
use mainstay_model::{
    Answer, At, Code, Command, Error, Receipt, Result, Revision, SessionCommand, Step, Transaction,
};
use mainstay_model::{Clock, SystemClock};
use parking_lot::{Condvar, Mutex};
use serde::de::DeserializeOwned;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Maximum number of idle dedicated connections kept for reuse.
const IDLE_LIMIT: usize = 8;

/// Maximum number of attempts to open state on a dedicated connection that breaks at once.
const SEAT_ATTEMPTS: usize = 3;

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

/// The handles' part of the pool. Dropping the last handle closes the connections.
pub struct ConnectionPool {
    pub(crate) inner: Arc<PoolShared>,
}

/// State shared between the handles and the pool's threads.
pub(crate) struct PoolShared {
    pub options: Settings,
    writing: WriteTurn,
    clock: SystemClock,
    room: Arc<InFlightLimiter>,
    lanes: [Mutex<Option<Arc<Socket>>>; SharedConnection::COUNT],
    pub tasks: Mutex<Tasks>,
    pub wake: Condvar,
    /// True if the keeper thread may be asleep although a request is being sent.
    pub asleep: AtomicBool,
    /// All open connections, for the keeper thread that watches them.
    sockets: Mutex<Vec<Weak<Socket>>>,
    idle: Mutex<Vec<Arc<Socket>>>,
    calls: CallbackThread,
    closed: AtomicBool,
    /// The newest revision that this client has seen.
    known: AtomicU64,
}

impl ConnectionPool {
    /// Creates a pool that connects on demand.
    pub(crate) fn start(options: Settings, writing: WriteTurn) -> Result<Arc<ConnectionPool>> {
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

    /// Connects once, on this thread.
    pub fn connect_now(&self) -> Result<()> {
        let socket = self.inner.open()?;
        self.inner.publish(SharedConnection::Reads, socket);
        Ok(())
    }

    /// Checks that a compatible server answers.
    pub async fn greet(&self) -> Result<()> {
        self.revision().await.map(|_| ())
    }

    /// Closes all connections. Calls in flight fail.
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

    /// Executes a transaction and blocks. A separate function keeps this code out of callers whose embedded
    /// path is short.
    #[cold]
    #[inline(never)]
    pub fn execute_and_wait(&self, transaction: &Transaction) -> Result<Receipt> {
        wait(self.execute(transaction))
    }

    /// Executes transactions in order, pipelined. A long one uses a dedicated connection, so it waits for
    /// all before it, and all after it wait for it.
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

    /// Sends a transaction. Its outcome arrives in the returned slot.
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

    /// Sends a transaction. The callback gets its outcome on the callback thread.
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
        let link = self.clone();
        let nature = packed.nature;
        let called = move |answer, permit| {
            let inner = link.inner.clone();
            // The callback owns the pool, which keeps it open until the callback is done.
            inner.calls.post(permit, Box::new(move || done(link.inner.receipt(nature, answer))));
        };
        wait(self.send_packed(packed, Answering::Callback(Box::new(called))));
    }

    /// Executes a command as its own transaction.
    pub async fn run(&self, branch: &str, command: Command) -> Result<Answer> {
        let receipt = self.execute(&Transaction::on(branch).step(command)).await?;
        receipt.into_first()
    }

    /// Reads at the newest revision of a branch.
    pub async fn look(&self, branch: &str, read: ReadOp) -> Result<ReadReply> {
        let takes_a_while = read.takes_a_while();
        let look = ReadRequest { branch: branch.to_owned(), at: At::Latest, read };
        let bytes = request("WIRE.READ", &wire::encode(&look)?);
        if takes_a_while {
            self.errand(&bytes, RetrySafety::Errand, Duration::ZERO).await
        } else {
            decode(RetrySafety::Read, self.call(bytes, RetrySafety::Read).await)
        }
    }

    /// Sends a query or an administrative request.
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

    /// Runs a long request on a dedicated connection. Retries once if the connection broke and the request
    /// only reads.
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

    /// Fetches the newest visible revision.
    pub async fn revision(&self) -> Result<Revision> {
        let revision = self.ask(AdminRequest::Revision).await?;
        self.inner.learn(revision);
        Ok(revision)
    }

    /// The newest revision that this client has seen.
    pub fn known(&self) -> Revision {
        // Acquire pairs with `learn`: a caller that saw a receipt sees at least its revision.
        self.inner.known.load(Ordering::Acquire)
    }

    /// Returns a dedicated connection.
    pub(crate) async fn seat(&self) -> Result<DedicatedConnection> {
        self.inner.check_open()?;
        match self.inner.take_idle() {
            Some(socket) => Ok(DedicatedConnection::new(self.inner.clone(), socket)),
            None => self.inner.want_seat().answer().await,
        }
    }

    /// Opens server-side state on a dedicated connection. Returns the connection and the revision that the
    /// state reads.
    pub(crate) async fn hold(
        &self,
        act: &TransactionRequest,
    ) -> Result<(DedicatedConnection, Revision)> {
        let mut left = SEAT_ATTEMPTS;
        loop {
            left -= 1;
            let mut seat = self.seat().await?;
            match seat.act(act).await {
                Ok(TransactionReply::Holds(revision)) => return Ok((seat, revision)),
                Ok(_) => return Err(Answer::mismatch()),
                // An idle connection may have been closed by the server meanwhile.
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

    /// Sends a transaction. A long one gets a dedicated connection, so that no other request waits behind
    /// it.
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

    /// Waits for an in-flight permit and creates the call.
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
        // Acquire pairs with the Release in `close`.
        if self.closed.load(Ordering::Acquire) { Err(failure::closed()) } else { Ok(()) }
    }

    fn learn(&self, revision: Revision) {
        // Release pairs with the Acquire in `known`.
        self.known.fetch_max(revision, Ordering::AcqRel);
    }

    fn receipt(&self, nature: RetrySafety, answer: Result<Vec<u8>>) -> Result<Receipt> {
        let receipt: Receipt = decode(nature, answer)?;
        self.learn(receipt.revision);
        Ok(receipt)
    }

    /// Creates a call with its time limits. `extra` is added where the server is asked to wait.
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

    /// Sends a call on a shared connection, or queues it for the keeper thread.
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
            // The keeper publishes a connection under this lock, after it has sent all calls queued here.
            if self.on_lane(lane).is_none() {
                tasks.calls[lane as usize].push_back(call);
                self.wake.notify_one();
                return;
            }
        }
    }

    /// The shared connection, if it is not broken.
    pub fn on_lane(&self, lane: SharedConnection) -> Option<Arc<Socket>> {
        let mut place = self.lanes[lane as usize].lock();
        if place.as_ref().is_some_and(|socket| socket.is_broken()) {
            *place = None;
        }
        place.clone()
    }

    /// Makes a connection available to all callers.
    pub fn publish(&self, lane: SharedConnection, socket: Arc<Socket>) {
        *self.lanes[lane as usize].lock() = Some(socket);
    }

    /// Wakes the keeper thread, so that it watches the request just sent.
    pub fn wake_keeper(&self) {
        // SeqCst pairs with the store in `wait_for_work`. The load skips the swap in the common case.
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            // Taking the lock once ensures that the keeper is already waiting, so the wake-up is not lost.
            drop(self.tasks.lock());
            self.wake.notify_one();
        }
    }

    /// All connections that are still alive.
    pub fn sockets(&self) -> Vec<Arc<Socket>> {
        let mut sockets = self.sockets.lock();
        sockets.retain(|socket| socket.strong_count() > 0);
        sockets.iter().filter_map(Weak::upgrade).collect()
    }

    /// Opens a connection and completes the handshake.
    pub fn open(self: &Arc<PoolShared>) -> Result<Arc<Socket>> {
        self.check_open()?;
        let Settings { address, patience, timeout, .. } = &self.options;
        let unreachable = |error: &_| failure::unreachable(address, error);
        let limits = Limits { connect: *patience, write: *timeout };
        let stream = self.options.dial.dial(address, limits).map_err(|e| unreachable(&e))?;
        let ticking = self.clone();
        let losing = self.clone();
        let socket = Socket::start(
            stream,
            self.writing,
            move || ticking.now_us(),
            move |socket| losing.lost(socket),
        );
        let socket = socket.map_err(|error| no_thread(&error))?;
        self.sockets.lock().push(Arc::downgrade(&socket));
        // Checked after the socket is registered: a later close finds the socket, and an earlier close is
        // seen here.
        let agreed = self.check_open().and_then(|()| self.shake_hands(&socket));
        agreed.inspect_err(|_| socket.hang_up())?;
        Ok(socket)
    }

    /// Checks the limit on dedicated connections. Shared connections do not count.
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

    /// Ends a connection. Requeues the calls that may be retried and fails the others.
    fn lost(&self, socket: &Socket) {
        let silent = socket.was_silent();
        // Mark the socket broken only while holding the lock under which the retries are queued. So calls
        // sent later are queued behind the retries.
        let mut tasks = self.tasks.lock();
        let closed = tasks.closed;
        let (again, over): (Vec<PendingCall>, Vec<PendingCall>) = socket
            .end()
            .into_iter()
            .partition(|call| call.has_attempts_left() && !silent && !closed);
        self.send_again(&mut tasks, again);
        drop(tasks);
        for call in over {
            let error = if closed && !call.writes() {
                failure::closed()
            } else {
                self.ended(socket, call.nature)
            };
            call.fail(error);
        }
    }

    /// The error for calls on a connection that ended.
    fn ended(&self, socket: &Socket, nature: RetrySafety) -> Error {
        match (nature, socket.why()) {
            (RetrySafety::Read | RetrySafety::Errand, Some(why)) => why.clone(),
            _ => failure::lost(nature, &self.options.address, socket.was_silent()),
        }
    }

    /// Queues retried calls in front of those already waiting, in their original order.
    fn send_again(&self, tasks: &mut Tasks, calls: Vec<PendingCall>) {
        let give_up_us = self.patience_us();
        for mut call in calls.into_iter().rev() {
            call.try_again(give_up_us);
            tasks.calls[SharedConnection::of(call.nature) as usize].push_front(call);
        }
        self.wake.notify_one();
    }

    /// Fails a call whose connection ended before it was sent.
    pub fn not_sent(&self, call: PendingCall) {
        let nature = match call.nature {
            RetrySafety::Commit | RetrySafety::Held => RetrySafety::Held,
            _ => RetrySafety::Errand,
        };
        call.fail(failure::lost(nature, &self.options.address, false));
    }

    /// Returns an idle connection, if any.
    pub fn take_idle(&self) -> Option<Arc<Socket>> {
        let mut idle = self.idle.lock();
        while let Some(socket) = idle.pop() {
            if !socket.is_broken() {
                return Some(socket);
            }
        }
        None
    }

    /// Keeps a connection for reuse, or closes it if enough are idle.
    pub fn give_back(&self, socket: Arc<Socket>) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_LIMIT && self.check_open().is_ok() {
            idle.push(socket)
        } else {
            socket.hang_up()
        }
    }

    fn want_seat(&self) -> Arc<Oneshot<Result<DedicatedConnection>>> {
        let slot: Arc<Oneshot<_>> = Arc::default();
        let mut tasks = self.tasks.lock();
        if tasks.closed {
            slot.put(Err(failure::closed()))
        } else {
            let give_up_us = self.patience_us();
            tasks.seats.push_back(WantedConnection { slot: slot.clone(), give_up_us });
            self.wake.notify_one();
        }
        slot
    }

    fn close(&self) {
        // Release pairs with the Acquire in `check_open`.
        self.closed.store(true, Ordering::Release);
        self.tasks.lock().closed = true;
        self.wake.notify_one();
        self.idle.lock().clear();
        self.sockets().iter().for_each(|socket| socket.hang_up());
    }
}

/// A request that was sent, whose answer is to come.
pub struct SubmittedRequest {
    slot: Arc<Oneshot<Result<Vec<u8>>>>,
    nature: RetrySafety,
    /// Keeps the connections open until the request is finished.
    link: Arc<ConnectionPool>,
}

impl SubmittedRequest {
    /// Returns whether the answer has arrived.
    pub fn is_done(&self) -> bool {
        self.slot.is_done()
    }

    /// Waits for the answer.
    pub fn wait(&self) -> Result<Receipt> {
        wait(std::future::poll_fn(|context| self.poll(context)))
    }

    /// Takes the answer, or registers the task to be woken by it.
    pub fn poll(&self, context: &std::task::Context<'_>) -> std::task::Poll<Result<Receipt>> {
        self.slot.poll(context).map(|answer| self.link.inner.receipt(self.nature, answer))
    }
}

struct EncodedTransaction {
    bytes: Vec<u8>,
    /// Retry safety if the answer does not arrive.
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
    let bytes = request("WIRE.EXECUTE", &frame);
    let takes_a_while = transaction.takes_a_while();
    Ok(EncodedTransaction { bytes, nature, takes_a_while })
}

/// Classifies the retry safety of a transaction.
fn nature(transaction: &Transaction) -> RetrySafety {
    match (&transaction.request, transaction.steps.as_slice()) {
        (Some(_), _) => RetrySafety::Named,
        // A keep-alive is idempotent.
        (None, [Step { command: Command::Session(command), .. }])
            if command.reads() || matches!(command, SessionCommand::KeepAlive { .. }) =>
        {
            RetrySafety::Read
        }
        (None, _) => RetrySafety::Once,
    }
}

/// Decodes an answer.
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

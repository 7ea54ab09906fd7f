//! Dedicated connections, on which the server holds a transaction or a view.

use super::call::{Answering, PendingCall, RetrySafety, request};
use super::connection_pool::{PoolShared, decode};
use super::oneshot::Oneshot;
use super::resp;
use super::socket::{PendingRequests, Socket};
use mainstay_model::Result;
use mainstay_model::wire::{self, TransactionReply, TransactionRequest};
use std::sync::Arc;
use std::time::Duration;

/// A connection used by one owner. Dropping this returns it to the pool.
pub(crate) struct DedicatedConnection {
    inner: Arc<PoolShared>,
    socket: Arc<Socket>,
    /// True if the server holds a transaction or a view on it.
    holds: bool,
}

impl DedicatedConnection {
    pub fn new(inner: Arc<PoolShared>, socket: Arc<Socket>) -> DedicatedConnection {
        DedicatedConnection { inner, socket, holds: false }
    }

    /// Returns whether the connection is unusable.
    pub fn is_broken(&self) -> bool {
        self.socket.is_broken()
    }

    /// Sends a request. `extra` is how long the server is asked to wait.
    pub async fn call(
        &self,
        bytes: Vec<u8>,
        nature: RetrySafety,
        extra: Duration,
    ) -> Result<Vec<u8>> {
        let slot: Arc<Oneshot<_>> = Arc::default();
        self.start(bytes, nature, Answering::Slot(slot.clone()), extra);
        slot.answer().await
    }

    fn start(&self, bytes: Vec<u8>, nature: RetrySafety, done: Answering, extra: Duration) {
        let call = self.inner.call(bytes, nature, done, None, extra);
        send(&self.inner, &self.socket, call);
    }

    /// Sends a call that owns this connection until its answer has arrived, even if its caller stops
    /// waiting.
    pub fn carry(self, mut call: PendingCall) {
        let inner = self.inner.clone();
        let socket = self.socket.clone();
        call.seat = Some(self);
        send(&inner, &socket, call);
    }

    /// Opens or ends the transaction or view that the server holds.
    pub async fn act(&mut self, act: &TransactionRequest) -> Result<TransactionReply> {
        let nature = match act {
            TransactionRequest::Commit { .. } => RetrySafety::Commit,
            TransactionRequest::Begin { .. } | TransactionRequest::View { .. } => {
                RetrySafety::Errand
            }
            _ => RetrySafety::Held,
        };
        self.holds =
            !matches!(act, TransactionRequest::Commit { .. } | TransactionRequest::Take { .. });
        self.say(act, nature).await
    }

    /// Runs an operation on the transaction or view that the server holds.
    pub async fn act_held(&self, act: &TransactionRequest) -> Result<TransactionReply> {
        self.say(act, RetrySafety::Held).await
    }

    async fn say(&self, act: &TransactionRequest, nature: RetrySafety) -> Result<TransactionReply> {
        let bytes = request("WIRE.RUN", &wire::encode(act)?);
        decode(nature, self.call(bytes, nature, Duration::ZERO).await)
    }

    /// Sends a request whose answer is ignored.
    fn say_goodbye(&self, bytes: Vec<u8>) {
        self.start(bytes, RetrySafety::Held, Answering::Nobody, Duration::ZERO);
    }

    /// Releases the server-side state and returns the connection to the pool.
    fn give_back(&self) {
        if self.holds
            && let Ok(frame) = wire::encode(&TransactionRequest::Leave)
        {
            self.say_goodbye(request("WIRE.RUN", &frame));
        }
        if !self.socket.is_broken() {
            self.inner.give_back(self.socket.clone());
        }
    }
}

fn send(inner: &PoolShared, socket: &Socket, call: PendingCall) {
    match socket.send(call, inner.now_us()) {
        Ok(()) => inner.wake_keeper(),
        Err(call) => inner.not_sent(call),
    }
}

impl Drop for DedicatedConnection {
    /// If an answer is still outstanding, the connection is closed, so that its next user does not wait
    /// behind that answer.
    fn drop(&mut self) {
        match self.socket.under_way() {
            None => self.give_back(),
            Some(PendingRequests::Reads) => self.socket.give_up(),
            // The server executes requests already sent, then closes the connection.
            Some(PendingRequests::Writes) => self.say_goodbye(resp::encode(&["QUIT"])),
        }
    }
}

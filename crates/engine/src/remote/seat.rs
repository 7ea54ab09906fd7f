//! Seats: a connection for oneself, with what the server holds on it.

use super::call::{Call, Done, Nature, request};
use super::link::{Inner, decode};
use super::resp;
use super::slot::Slot;
use super::socket::{Socket, Work};
use crate::wire::{self, Act, Acted};
use mainstay_model::Result;
use std::sync::Arc;
use std::time::Duration;

/// A connection for oneself; it is used again when this is dropped.
pub(crate) struct Seat {
    inner: Arc<Inner>,
    socket: Arc<Socket>,
    /// The server holds something: a transaction, a view.
    holds: bool,
}

impl Seat {
    pub fn new(inner: Arc<Inner>, socket: Arc<Socket>) -> Seat {
        Seat { inner, socket, holds: false }
    }

    /// Whether it is of no use any more.
    pub fn is_broken(&self) -> bool {
        self.socket.is_broken()
    }

    /// Sends a request; `extra` is what the server is told to wait.
    pub async fn call(&self, bytes: Vec<u8>, nature: Nature, extra: Duration) -> Result<Vec<u8>> {
        let slot: Arc<Slot<_>> = Arc::default();
        self.start(bytes, nature, Done::Slot(slot.clone()), extra);
        slot.answer().await
    }

    fn start(&self, bytes: Vec<u8>, nature: Nature, done: Done, extra: Duration) {
        let call = self.inner.call(bytes, nature, done, None, extra);
        send(&self.inner, &self.socket, call);
    }

    /// Sends a call that keeps this until its answer is there, whoever waits for that.
    pub fn carry(self, mut call: Call) {
        let (inner, socket) = (self.inner.clone(), self.socket.clone());
        call.seat = Some(self);
        send(&inner, &socket, call);
    }

    /// Opens or ends what the server holds here.
    pub async fn act(&mut self, act: &Act) -> Result<Acted> {
        let nature = match act {
            Act::Commit { .. } => Nature::Commit,
            Act::Begin { .. } | Act::View { .. } => Nature::Errand,
            _ => Nature::Held,
        };
        self.holds = !matches!(act, Act::Commit { .. } | Act::Take { .. });
        self.say(act, nature).await
    }

    /// Does something with what the server holds here.
    pub async fn act_held(&self, act: &Act) -> Result<Acted> {
        self.say(act, Nature::Held).await
    }

    async fn say(&self, act: &Act, nature: Nature) -> Result<Acted> {
        let bytes = request("WIRE.RUN", &wire::encode(act)?);
        decode(nature, self.call(bytes, nature, Duration::ZERO).await)
    }

    /// Says something whose answer nobody asks for.
    fn say_goodbye(&self, bytes: Vec<u8>) {
        self.start(bytes, Nature::Held, Done::Nobody, Duration::ZERO);
    }

    /// Lets go of what the server holds, and keeps the connection for the next one.
    fn give_back(&self) {
        if self.holds
            && let Ok(frame) = wire::encode(&Act::Leave)
        {
            self.say_goodbye(request("WIRE.RUN", &frame));
        }
        if !self.socket.is_broken() {
            self.inner.give_back(self.socket.clone());
        }
    }
}

fn send(inner: &Inner, socket: &Socket, call: Call) {
    match socket.send(call, inner.now_us()) {
        Ok(()) => inner.wake_keeper(),
        Err(call) => inner.not_sent(call),
    }
}

impl Drop for Seat {
    /// Whoever gives up waiting gives up the connection, so that nobody waits behind the answer.
    fn drop(&mut self) {
        match self.socket.under_way() {
            None => self.give_back(),
            Some(Work::Reads) => self.socket.give_up(),
            // What was sent is done: the server hangs up behind it.
            Some(Work::Writes) => self.say_goodbye(resp::encode(&["QUIT"])),
        }
    }
}

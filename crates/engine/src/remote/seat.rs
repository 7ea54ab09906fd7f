//! Seats: a connection for oneself, with what the server holds on it.

use super::call::{Done, Nature, request};
use super::link::{Inner, decode};
use super::slot::Slot;
use super::socket::Socket;
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
        match self.socket.send(call, self.inner.now_us()) {
            Ok(()) => self.inner.wake_keeper(),
            Err(call) => self.inner.not_sent(call),
        }
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

    /// Uses it for a question that may take long: whoever gives up waiting gives up the connection,
    /// so that nobody waits behind it.
    pub fn alone(self) -> Alone {
        Alone(Some(self))
    }
}

/// A seat with a question under way.
pub(crate) struct Alone(Option<Seat>);

impl Alone {
    /// Asks, and gives the seat back.
    pub async fn ask(mut self, bytes: Vec<u8>, extra: Duration) -> (Option<Seat>, Result<Vec<u8>>) {
        let answer = match &self.0 {
            Some(seat) => seat.call(bytes, Nature::Errand, extra).await,
            None => Err(super::failure::closed()),
        };
        (self.0.take(), answer)
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // Behind this the seat is dropped: it sees that its connection is over.
        if let Some(seat) = &self.0 {
            seat.socket.give_up();
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.holds
            && let Ok(frame) = wire::encode(&Act::Leave)
        {
            let bytes = request("WIRE.RUN", &frame);
            self.start(bytes, Nature::Held, Done::Nobody, Duration::ZERO);
        }
        if !self.socket.is_broken() {
            self.inner.give_back(self.socket.clone());
        }
    }
}

//! Calls of user code with atomic effects: a call's writes and requests are applied together or not at all.
//!
//! ```text
//!   function ---> response, requests, writes      ---> encode, check      ---> merge writes, send requests
//!        \                                                |
//!         panics, or returns an Err                       too large
//!              \                                          |
//!               +-----------------------------------------+---> an error; nothing has changed
//! ```

use super::codec::Codec;
use super::core::Core;
use super::faults::{Fault, planted};
use super::output::ServerRequest;
use super::reply::Reply;
use super::sessions::Unsent;
use super::state::{StateView, UserState, Writes};
use super::user::{Emitted, Outcome};
use mainstay_model::{Code, Error, Result, Stamp};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The encoded result of user code.
pub(super) struct Said {
    response: Vec<u8>,
    is_error: bool,
    requests: Vec<Unsent>,
}

/// The result of a call, not applied yet.
pub(super) struct Called {
    said: Result<Said>,
    writes: Writes,
}

/// Calls user code and catches panics.
pub(super) fn call(
    state: &UserState,
    run: impl FnOnce(&mut StateView<'_>) -> Result<Said>,
) -> Called {
    let mut view = StateView::new(state);
    // `AssertUnwindSafe` is correct: a panic can leave only the view inconsistent, and its writes are dropped
    // then.
    let said = catch_unwind(AssertUnwindSafe(|| run(&mut view)));
    let said = said.unwrap_or_else(|panic| Err(panicked(panic)));
    Called { said, writes: view.into_writes() }
}

/// Converts a panic to an error, always the same one. A non-string payload is leaked, because its destructor
/// might panic again.
#[cold]
fn panicked(panic: Box<dyn Any + Send>) -> Error {
    if !panic.is::<&'static str>() && !panic.is::<String>() {
        std::mem::forget(panic);
    }
    Error::new(Code::MachineFailed, "the machine panicked at this command; nothing of it was done")
}

/// Encodes the result of a command.
pub(super) fn say_outcome<R, Q, C: Codec<R> + Codec<Q>>(outcome: Outcome<R, Q>) -> Result<Said> {
    let Outcome { response, is_error, requests } = outcome;
    let response = <C as Codec<R>>::to_bytes(&response)?;
    Ok(Said { response, is_error, requests: encode_requests::<Q, C>(requests)? })
}

/// Encodes the requests of a session hook.
pub(super) fn say_requests<Q, C: Codec<Q>>(requests: Vec<Emitted<Q>>) -> Result<Said> {
    let requests = encode_requests::<Q, C>(requests)?;
    Ok(Said { response: Vec::new(), is_error: false, requests })
}

fn encode_requests<Q, C: Codec<Q>>(requests: Vec<Emitted<Q>>) -> Result<Vec<Unsent>> {
    let encode = |Emitted { session, request }| {
        C::to_bytes(&request).map(|payload| (session, Arc::from(payload)))
    };
    requests.into_iter().map(encode).collect()
}

impl Core {
    /// Applies a call's effects, all or nothing.
    pub(super) fn settle(
        &mut self,
        now: Stamp,
        called: Called,
    ) -> Result<(Reply, Vec<ServerRequest>)> {
        let Called { said, writes } = called;
        let checked = said.as_ref().map_err(Error::clone).and_then(|said| self.weigh(now, said));
        if checked.is_ok() || planted(Fault::PanicKeepsWrites) {
            self.state.merge(writes);
        }
        match (said, checked) {
            (Ok(Said { response, is_error, requests }), Ok(())) => {
                let reply = Reply::Response { bytes: response.into(), is_error };
                Ok((reply, self.post(now, requests)))
            }
            (Ok(said), Err(error)) => {
                if planted(Fault::AbortedRequestsSent) {
                    self.post(now, said.requests);
                }
                Err(error)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Rejects a response that is too large to store, and requests that exceed the mailbox limits.
    fn weigh(&self, now: Stamp, said: &Said) -> Result<()> {
        let bytes = said.response.len();
        let most = self.limits.kept.bytes;
        if bytes > most {
            let message = format!("a response has at most {most} bytes, this one {bytes}");
            return Err(Error::new(Code::ValueTooLarge, message));
        }
        self.sessions.check_room(now, &said.requests, &self.limits)
    }
}

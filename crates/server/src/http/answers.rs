//! Memory accounting for responses: a response's bytes are reserved until the client has received them.
//!
//! ```text
//!   connection --account--> request --its user's account--> handler --> answer
//!                                                                         | reserved until its last byte is sent
//!                                                                         v
//!                                      too much: 503 with the setting; a stream is cut
//! ```
//!
//! The account is task-local, so functions need no parameter for it.

use super::Http;
use super::refusal::Refusal;
use crate::memory::{Account, Exceeded, Kind, Reservation};
use axum::body::{Body, Bytes, HttpBody};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use mainstay::{Code, Error};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

tokio::task_local! {
    static ACCOUNT: Arc<Account>;
}

/// Runs a future with this account as the task-local one.
pub(super) fn on<F: Future>(account: Arc<Account>, work: F) -> impl Future<Output = F::Output> {
    ACCOUNT.scope(account, work)
}

/// The account of the current request.
pub(super) fn account(app: &Http) -> Arc<Account> {
    ACCOUNT.try_with(Arc::clone).unwrap_or_else(|_| app.memory().connect(None))
}

/// Error for a reservation that exceeds the budget.
pub(super) fn no_memory(exceeded: &Exceeded) -> Refusal {
    Refusal::unavailable(
        "MemoryLimit",
        format!("{exceeded}: read what was answered, and try later"),
    )
}

/// Error for a write that was executed, but whose answer exceeds the budget.
pub(super) fn done_without_answer(exceeded: &Exceeded) -> Refusal {
    let message = format!("it was done, and its answer has no room: {exceeded}");
    Refusal::from(Error::new(Code::UnknownOutcome, message))
}

/// Reserves memory for a response until it is sent. If it does not fit, returns an error response instead.
pub(super) fn held(account: &Arc<Account>, method: &Method, response: Response) -> Response {
    let (parts, body) = response.into_parts();
    let whole = match body.size_hint().exact() {
        Some(bytes) => {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            match account.reserve(Kind::Answers, bytes) {
                Ok(reservation) => Some(Arc::new(reservation)),
                Err(exceeded) if method.is_safe() => return no_memory(&exceeded).into_response(),
                Err(exceeded) => return done_without_answer(&exceeded).into_response(),
            }
        }
        None => None,
    };
    let body = Held { body, account: account.clone(), whole };
    Response::from_parts(parts, Body::new(body))
}

/// A body whose bytes are counted against an account.
struct Held {
    body: Body,
    account: Arc<Account>,
    /// The reservation of a body of known size. A streamed body reserves each piece separately.
    whole: Option<Arc<Reservation>>,
}

impl Held {
    fn counted(&self, bytes: Bytes) -> Result<Bytes, axum::Error> {
        let reservation = match &self.whole {
            Some(whole) => whole.clone(),
            None => {
                let reserved = self.account.reserve(Kind::Streams, bytes.len());
                Arc::new(reserved.map_err(|exceeded| axum::Error::new(exceeded.to_string()))?)
            }
        };
        Ok(Bytes::from_owner(Counted { bytes, _reservation: reservation }))
    }
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        polled.map(|frame| {
            frame.map(|frame| match frame?.into_data() {
                Ok(bytes) => self.counted(bytes).map(Frame::data),
                Err(frame) => Ok(frame),
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Bytes on their way to a client. They stay reserved until the last of them is written.
struct Counted {
    bytes: Bytes,
    _reservation: Arc<Reservation>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

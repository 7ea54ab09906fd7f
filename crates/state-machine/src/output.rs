//! Results of log entries: an answer and requests to send.

use super::codec::Codec;
use super::reply::Reply;
use mainstay_model::{Name, Result, SessionInfo};
use std::sync::Arc;

/// The result of a log entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The answer. An error means that the entry was refused and not executed, or that the machine refused to
    /// open a session. A command that was executed and aborted is answered with a [`Reply`].
    pub answer: Result<Answer>,
    /// The requests to send to clients now.
    pub requests: Vec<ServerRequest>,
}

impl Output {
    pub(super) fn new(answer: Result<Answer>) -> Output {
        Output { answer, requests: Vec::new() }
    }

    /// Returns the response of a request or an internal command; `None` for other entries and if it was
    /// refused.
    pub fn response(&self) -> Option<&Response> {
        match &self.answer {
            Ok(Answer::Response(response)) => Some(response),
            _ => None,
        }
    }
}

/// The answer to a log entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// The session is open.
    Opened {
        /// The state of the session, including the number of the client's next request.
        info: SessionInfo,
        /// True if the session is new.
        created: bool,
    },
    /// The response of a request or an internal command.
    Response(Response),
    /// The number of acknowledged requests.
    Acknowledged(u64),
    /// The number of the request; `None` if the session does not exist and the request was dropped.
    Sent(Option<u64>),
    /// True if the session existed.
    Ended(bool),
    /// The result of `ExpireDue`.
    Expired {
        /// The number of ended sessions.
        count: u64,
        /// True if more sessions have expired.
        more: bool,
    },
    /// The result of `Retry`. The requests are in the output.
    Retried {
        /// True if more requests remain.
        more: bool,
    },
    /// The entry was applied.
    Done,
}

/// The response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The reply of the command.
    pub reply: Reply,
    /// True if the request had been executed before.
    pub is_repeat: bool,
}

/// A request to a session's client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerRequest {
    /// The session.
    pub session: Name,
    /// The request's number in the session, from 1.
    pub id: u64,
    /// The content, encoded by the user's codec.
    pub payload: Arc<[u8]>,
}

impl ServerRequest {
    /// Decodes the content.
    pub fn decode<Q, C: Codec<Q>>(&self) -> Result<Q> {
        C::decode(&self.payload)
    }
}

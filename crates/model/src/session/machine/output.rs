//! What a machine says: an answer, and requests to be sent.

use super::codec::Codec;
use super::reply::Reply;
use crate::{Name, Result, SessionInfo};
use std::sync::Arc;

/// What came of an entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The answer. An error here says that the entry was refused and not executed, or that the machine did not let a
    /// session be opened. A command that was executed and aborted is answered with a [`Reply`].
    pub answer: Result<Answer>,
    /// Requests to be sent to clients now.
    pub requests: Vec<ServerRequest>,
}

impl Output {
    pub(super) fn new(answer: Result<Answer>) -> Output {
        Output { answer, requests: Vec::new() }
    }

    /// What a request or an internal command was answered; nothing for other entries, and where it was refused.
    pub fn response(&self) -> Option<&Response> {
        match &self.answer {
            Ok(Answer::Response(response)) => Some(response),
            _ => None,
        }
    }
}

/// The answer to an entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// The session is open.
    Opened {
        /// What is known of it, among it the number for the client's next request.
        info: SessionInfo,
        /// Whether there was none of this name.
        created: bool,
    },
    /// A request was executed, now or before, or an internal command was.
    Response(Response),
    /// How many requests were acknowledged.
    Acknowledged(u64),
    /// The number of the request that was sent; nothing: there is no such session, and it was dropped.
    Sent(Option<u64>),
    /// Whether there was such a session.
    Ended(bool),
    /// How many sessions ended, and whether there are more.
    Expired {
        /// How many.
        count: u64,
        /// Whether more are due.
        more: bool,
    },
    /// The requests to be sent again are those of the output.
    Retried {
        /// Whether there are more.
        more: bool,
    },
    /// It is done.
    Done,
}

/// What a request was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The answer itself.
    pub reply: Reply,
    /// Whether the request had been executed before.
    pub is_repeat: bool,
}

/// A request of the server to a session's client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerRequest {
    /// The session.
    pub session: Name,
    /// Its number in the session, from 1.
    pub id: u64,
    /// What it says, as the user's codec wrote it.
    pub payload: Arc<[u8]>,
}

impl ServerRequest {
    /// What the machine says.
    pub fn decode<Q, C: Codec<Q>>(&self) -> Result<Q> {
        C::decode(&self.payload)
    }
}

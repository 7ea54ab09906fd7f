//! An embedded session: executes RESP commands on a database in this process, without a socket.

use crate::resp::{self, ConnectionState, Settings, Shared};
use mainstay::Database;
use mainstay::remote::Reply;

/// The peer address of embedded sessions, where connections have that of their socket.
const PEER: &str = "here";

/// The session of one embedded client. It executes the same commands as a connection to a server.
pub struct EmbeddedSession {
    session: ConnectionState,
}

impl EmbeddedSession {
    /// Opens a session on a database, with the default settings of the RESP front end and without users.
    pub fn new(db: Database) -> EmbeddedSession {
        let shared = Shared::new(db, Settings::default());
        EmbeddedSession { session: ConnectionState::new(&shared, PEER.to_owned()) }
    }

    /// Opens a further session on the same database.
    #[must_use]
    pub fn open_another(&self) -> EmbeddedSession {
        EmbeddedSession { session: ConnectionState::new(&self.session.shared, PEER.to_owned()) }
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.session.shared.db
    }

    /// Executes a command and returns its reply as a client would decode it.
    pub fn execute(&mut self, words: &[Vec<u8>]) -> Reply {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        decoded(self.session.answer_blocking(&words))
    }
}

/// Converts a reply to the form that a client decodes.
fn decoded(reply: resp::Reply) -> Reply {
    let all = |items: Vec<resp::Reply>| items.into_iter().map(decoded).collect();
    match reply {
        resp::Reply::Status(text) => Reply::text(text),
        resp::Reply::Error(text) => Reply::Error(text.into_owned()),
        resp::Reply::Int(n) => Reply::Int(n),
        resp::Reply::Bulk(bytes) => Reply::Text(bytes),
        resp::Reply::Nil | resp::Reply::NilArray => Reply::Nil,
        resp::Reply::Array(items) | resp::Reply::Push(items) => Reply::Array(all(items)),
        resp::Reply::Map(pairs) => Reply::Map(
            pairs.into_iter().map(|(key, value)| (decoded(key), decoded(value))).collect(),
        ),
        resp::Reply::Pairs(pairs) => Reply::Array(
            pairs
                .into_iter()
                .map(|(key, value)| Reply::Array(vec![decoded(key), decoded(value)]))
                .collect(),
        ),
    }
}

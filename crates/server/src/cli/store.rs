//! The store that data verbs work on: a directory opened in this process, or a server.
//!
//! ```text
//!   words of a command --> Store --+--> Embedded: the database in a directory
//!                                  +--> Client: RESP over TCP
//!   a reply            <-----------+
//! ```
//!
//! Both take the same commands, so no verb knows which of the two it talks to.

use super::args::TlsArgs;
use super::client::Client;
use super::embedded::Embedded;
use super::failure::{Failure, Result};
use super::password::Credentials;
use super::reply::Reply;
use mainstay::{Database, MAIN};
use std::path::Path;
use std::time::Duration;

/// A store, and where this session stands in it.
pub struct Store {
    place: Place,
    branch: String,
    in_transaction: bool,
}

enum Place {
    Directory(Box<Embedded>),
    Server(Client),
}

impl Store {
    /// Opens the database in a directory; makes one only where that is asked for.
    pub fn directory(path: &Path, make: bool) -> Result<Store> {
        Embedded::open(path, make).map(|store| Store::at(Place::Directory(Box::new(store))))
    }

    /// Connects to a server.
    pub fn server(
        address: &str,
        credentials: Option<&Credentials>,
        timeout: Duration,
        tls: &TlsArgs,
    ) -> Result<Store> {
        Client::connect(address, credentials, timeout, tls)
            .map(|client| Store::at(Place::Server(client)))
    }

    fn at(place: Place) -> Store {
        Store { place, branch: MAIN.to_owned(), in_transaction: false }
    }

    /// Executes a command; a refusal is a failure.
    pub fn call(&mut self, words: Vec<Vec<u8>>) -> Result<Reply> {
        let reply = match &mut self.place {
            Place::Directory(store) => store.call(&words),
            Place::Server(client) => client.call(&words)?,
        };
        self.notice(&words, &reply);
        match reply {
            Reply::Error(line) => Err(Failure::refused(&line)),
            reply => Ok(reply),
        }
    }

    /// Executes several commands that change nothing about the session, all of them under way at once
    /// where that is possible; each reply is looked at as it comes. The first refusal is a failure.
    pub fn call_all(&mut self, calls: &[Vec<Vec<u8>>], mut look: impl FnMut(&Reply)) -> Result<()> {
        let mut refused = None;
        let mut taken = |reply: Reply| match reply {
            Reply::Error(line) => drop(refused.get_or_insert_with(|| Failure::refused(&line))),
            reply => look(&reply),
        };
        match &mut self.place {
            Place::Directory(store) => calls.iter().for_each(|words| taken(store.call(words))),
            Place::Server(client) => client.call_all(calls, taken)?,
        }
        refused.map_or(Ok(()), Err)
    }

    /// Another session on the same database; nothing where that takes another connection.
    pub fn another(&self) -> Option<Store> {
        match &self.place {
            Place::Directory(store) => Some(Store::at(Place::Directory(Box::new(store.another())))),
            Place::Server(_) => None,
        }
    }

    /// Keeps track of what a command changed about the session.
    fn notice(&mut self, words: &[Vec<u8>], reply: &Reply) {
        let Some(command) = words.first() else { return };
        let failed = matches!(reply, Reply::Error(_));
        match command.to_ascii_uppercase().as_slice() {
            b"BRANCH.USE" if !failed => {
                let branch = words.get(1).map(Vec::as_slice).unwrap_or_default();
                self.branch = String::from_utf8_lossy(branch).into_owned();
            }
            b"TXN.BEGIN" => self.in_transaction |= !failed,
            // A commit ends its transaction whatever the answer.
            b"TXN.COMMIT" | b"TXN.ROLLBACK" => self.in_transaction = false,
            b"RESET" if !failed => {
                (self.branch, self.in_transaction) = (MAIN.to_owned(), false);
            }
            _ => {}
        }
    }

    /// Does something on another branch, and comes back.
    pub fn on<T>(
        &mut self,
        branch: Option<&str>,
        work: impl FnOnce(&mut Store) -> Result<T>,
    ) -> Result<T> {
        let Some(branch) = branch.filter(|branch| *branch != self.branch) else {
            return work(self);
        };
        let before = self.branch.clone();
        self.use_branch(branch)?;
        let done = work(self);
        // What failed may have taken the connection with it: its own failure says more.
        let back = self.use_branch(&before);
        done.and_then(|done| back.map(|()| done))
    }

    /// Works on this branch from here on.
    pub fn use_branch(&mut self, branch: &str) -> Result<()> {
        self.call(vec![b"BRANCH.USE".to_vec(), branch.into()]).map(|_| ())
    }

    /// Whether it can answer no more.
    pub fn is_broken(&self) -> bool {
        matches!(&self.place, Place::Server(client) if client.is_broken())
    }

    /// The branch that commands work on.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.in_transaction
    }

    /// What people call it.
    pub fn name(&self) -> String {
        match &self.place {
            Place::Directory(store) => store.path().display().to_string(),
            Place::Server(client) => client.address().to_owned(),
        }
    }

    /// The database itself, where this process has it open.
    pub fn database(&self) -> Result<&Database> {
        match &self.place {
            Place::Directory(store) => Ok(store.database()),
            Place::Server(client) => Err(Failure::error(format!(
                "{} is a server: name a directory with --data DIR",
                client.address()
            ))),
        }
    }

    /// Ends the session in good order.
    pub fn close(self) -> Result<()> {
        match self.place {
            Place::Directory(store) => store.close(),
            Place::Server(_) => Ok(()),
        }
    }
}

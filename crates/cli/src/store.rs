//! The store of the data verbs: a database directory opened in this process, or a server.
//!
//! ```text
//!   words of a command --> Store --+--> Embedded: the database in a directory
//!                                  +--> Client: RESP over TCP
//!   a reply            <-----------+
//! ```
//!
//! Both accept the same commands, so no verb depends on the kind of store.

use super::args::TlsArgs;
use super::client::Client;
use super::embedded::EmbeddedStore;
use super::failure::{Failure, NEGATIVE, Result};
use super::password::Credentials;
use super::reply::Reply;
use mainstay::{Database, MAIN};
use std::path::Path;
use std::time::Duration;

/// Commands that are allowed while the session's branch does not exist: they list branches, or select
/// another.
const WITHOUT_BRANCH: [&[u8]; 4] = [b"BRANCH.USE", b"BRANCH.LIST", b"BRANCH.INFO", b"RESET"];

/// Commands that set the durability themselves.
const WITHOUT_DURABILITY: [&[u8]; 2] = [b"DURABILITY", b"RESET"];

/// A store, and the state of the session on its connection.
pub struct Store {
    backend: Backend,
    branch: String,
    /// True if the connection is not on the session's branch yet.
    branch_pending: bool,
    open_transaction: Option<OpenTransaction>,
    /// True after `WATCH`, until a command ends it.
    watches: bool,
    /// The argument of the last `DURABILITY`, and whether it has yet to be sent on this connection.
    durability: Option<Vec<u8>>,
    durability_pending: bool,
}

/// The state of a connection that is lost with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenTransaction {
    /// Between `TXN.BEGIN` and its end.
    Interactive,
    /// Between `MULTI` and its end.
    Multi,
}

impl OpenTransaction {
    /// The command that begins it.
    fn command(self) -> &'static str {
        match self {
            OpenTransaction::Interactive => "TXN.BEGIN",
            OpenTransaction::Multi => "MULTI",
        }
    }
}

enum Backend {
    Directory(Box<EmbeddedStore>),
    Server(Client),
}

impl Store {
    /// Opens the database in a directory. Creates one only if `make` is true.
    pub fn directory(path: &Path, make: bool) -> Result<Store> {
        EmbeddedStore::open(path, make).map(|store| Store::at(Backend::Directory(Box::new(store))))
    }

    /// Connects to a server.
    pub fn server(
        address: &str,
        credentials: Option<&Credentials>,
        timeout: Duration,
        tls: &TlsArgs,
    ) -> Result<Store> {
        Client::connect(address, credentials, timeout, tls)
            .map(|client| Store::at(Backend::Server(client)))
    }

    fn at(backend: Backend) -> Store {
        let branch = MAIN.to_owned();
        let durability = None;
        Store {
            backend,
            branch,
            branch_pending: false,
            open_transaction: None,
            watches: false,
            durability,
            durability_pending: false,
        }
    }

    /// Takes over from a store whose connection broke, with its branch and durability, because the user has
    /// not changed them.
    pub fn with_state_of(mut self, broken: &Store) -> Store {
        self.set_branch(broken.branch.clone());
        self.durability = broken.durability.clone();
        self.durability_pending = true;
        self
    }

    /// Sets the session's branch. The connection is switched to it before the next command.
    fn set_branch(&mut self, branch: String) {
        self.branch = branch;
        self.branch_pending = true;
    }

    /// Executes a command. An error reply becomes a failure.
    pub fn call(&mut self, words: Vec<Vec<u8>>) -> Result<Reply> {
        let is_one_of = |known: &[&[u8]]| words.first().is_some_and(|name| is_among(name, known));
        if !is_one_of(&WITHOUT_DURABILITY) {
            self.send_durability()?;
        }
        if self.branch_pending && !is_one_of(&WITHOUT_BRANCH) {
            self.switch_to_branch()?;
        }
        self.send(words)
    }

    /// Sends the session's durability, if the connection does not have it yet.
    fn send_durability(&mut self) -> Result<()> {
        let durability = self.durability.clone().filter(|_| self.durability_pending);
        let said = durability.map(|durability| self.send(vec![b"DURABILITY".to_vec(), durability]));
        said.transpose().map(|_| ())
    }

    /// Switches the connection to the session's branch. If that branch does not exist, the command fails
    /// instead of running on another branch.
    fn switch_to_branch(&mut self) -> Result<()> {
        let branch = self.branch.clone();
        self.use_branch(&branch).map_err(|failure| match failure.code() {
            NEGATIVE => failure.hint(&format!(
                "the branch in use, {branch}, is gone and this was not done; `branch use NAME` goes \
                 to another one"
            )),
            _ => failure,
        })
    }

    fn send(&mut self, words: Vec<Vec<u8>>) -> Result<Reply> {
        let reply = match &mut self.backend {
            Backend::Directory(store) => store.call(&words),
            Backend::Server(client) => client.call(&words)?,
        };
        self.track(&words, &reply);
        match reply {
            Reply::Error(line) => Err(Failure::from_error_reply(&line)),
            reply => Ok(reply),
        }
    }

    /// Executes several commands that do not change the session, pipelined on a server. Passes each reply to
    /// `look`. The first error reply is returned as a failure.
    pub fn call_all(
        &mut self,
        calls: &[Vec<Vec<u8>>],
        mut on_reply: impl FnMut(&Reply),
    ) -> Result<()> {
        self.send_durability()?;
        if self.branch_pending {
            self.switch_to_branch()?;
        }
        let mut refused = None;
        let mut receive = |reply: Reply| match reply {
            Reply::Error(line) => {
                refused.get_or_insert_with(|| Failure::from_error_reply(&line));
            }
            reply => on_reply(&reply),
        };
        match &mut self.backend {
            Backend::Directory(store) => calls.iter().for_each(|words| receive(store.call(words))),
            Backend::Server(client) => client.call_all(calls, receive)?,
        }
        refused.map_or(Ok(()), Err)
    }

    /// A further session on the same database; `None` if that needs another connection.
    pub fn open_another(&self) -> Option<Store> {
        match &self.backend {
            Backend::Directory(store) => {
                Some(Store::at(Backend::Directory(Box::new(store.open_another()))))
            }
            Backend::Server(_) => None,
        }
    }

    /// Tracks the effect of a command on the session.
    fn track(&mut self, words: &[Vec<u8>], reply: &Reply) {
        let Some(command) = words.first() else { return };
        let failed = matches!(reply, Reply::Error(_));
        match command.to_ascii_uppercase().as_slice() {
            b"BRANCH.USE" if !failed => {
                let branch = words.get(1).map(Vec::as_slice).unwrap_or_default();
                self.branch = String::from_utf8_lossy(branch).into_owned();
                self.branch_pending = false;
            }
            b"TXN.BEGIN" if !failed => self.open_transaction = Some(OpenTransaction::Interactive),
            b"MULTI" if !failed => self.open_transaction = Some(OpenTransaction::Multi),
            b"WATCH" if !failed => self.watches = true,
            // Inside `MULTI`, `UNWATCH` is queued like any other command.
            b"UNWATCH" if self.open_transaction != Some(OpenTransaction::Multi) => {
                self.watches &= failed
            }
            b"DURABILITY" if !failed => {
                self.durability = words.get(1).cloned();
                self.durability_pending = false;
            }
            b"RESET" if !failed => self.track_reset(),
            name => self.track_end(name, words.len()),
        }
    }

    fn track_reset(&mut self) {
        self.branch = MAIN.to_owned();
        self.branch_pending = false;
        self.open_transaction = None;
        self.watches = false;
        self.durability = None;
    }

    /// Ends a transaction or `MULTI`. A failed commit ends it too, but a call with the wrong number of
    /// arguments does not.
    fn track_end(&mut self, name: &[u8], words: usize) {
        let ended = match name {
            b"TXN.COMMIT" | b"TXN.ROLLBACK" => OpenTransaction::Interactive,
            b"EXEC" | b"DISCARD" | b"SESSION.EXEC" => OpenTransaction::Multi,
            _ => return,
        };
        let understood = if name == b"SESSION.EXEC" { 5 } else { 1 };
        if self.open_transaction == Some(ended) && words == understood {
            self.open_transaction = None;
            // `EXEC` and `DISCARD` also end `WATCH`.
            self.watches &= ended != OpenTransaction::Multi;
        }
    }

    /// Runs work on another branch, and switches back afterwards.
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
        // The failure of the work is reported first, because it may have broken the connection.
        let back = self.use_branch(&before).inspect_err(|_| self.set_branch(before));
        done.and_then(|done| back.map(|()| done))
    }

    /// Switches to a branch.
    pub fn use_branch(&mut self, branch: &str) -> Result<()> {
        self.call(vec![b"BRANCH.USE".to_vec(), branch.into()]).map(|_| ())
    }

    /// True if the connection is broken.
    pub fn is_broken(&self) -> bool {
        matches!(&self.backend, Backend::Server(client) if client.is_broken())
    }

    /// The current branch.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// The open transaction or `MULTI`.
    pub fn open_transaction(&self) -> Option<OpenTransaction> {
        self.open_transaction
    }

    /// The command that the user has to repeat if the connection is lost.
    pub fn command_to_repeat(&self) -> Option<&'static str> {
        let open_transaction = self.open_transaction.map(OpenTransaction::command);
        if self.watches { Some("WATCH") } else { open_transaction }
    }

    /// The name shown to users: the directory or the address.
    pub fn name(&self) -> String {
        match &self.backend {
            Backend::Directory(store) => store.path().display().to_string(),
            Backend::Server(client) => client.address().to_owned(),
        }
    }

    /// The database, if this process has it open.
    pub fn database(&self) -> Result<&Database> {
        match &self.backend {
            Backend::Directory(store) => Ok(store.database()),
            Backend::Server(client) => Err(Failure::error(format!(
                "{} is a server: name a directory with --data DIR",
                client.address()
            ))),
        }
    }

    /// Closes the store.
    pub fn close(self) -> Result<()> {
        match self.backend {
            Backend::Directory(store) => store.close(),
            Backend::Server(_) => Ok(()),
        }
    }
}

fn is_among(name: &[u8], known: &[&[u8]]) -> bool {
    known.iter().any(|known| known.eq_ignore_ascii_case(name))
}

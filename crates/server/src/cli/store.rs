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
use super::failure::{Failure, NOT_HELD, Result};
use super::password::Credentials;
use super::reply::Reply;
use mainstay::{Database, MAIN};
use std::path::Path;
use std::time::Duration;

/// Commands that a session may send while the branch it was on is gone: they look, or choose another.
const WITHOUT_BRANCH: [&[u8]; 4] = [b"BRANCH.USE", b"BRANCH.LIST", b"BRANCH.INFO", b"RESET"];

/// Commands that say themselves how durable writes are from there on.
const WITHOUT_DURABILITY: [&[u8]; 2] = [b"DURABILITY", b"RESET"];

/// A store, and where this session stands in it.
pub struct Store {
    place: Place,
    branch: String,
    /// The other end does not know yet that the session is on its branch.
    astray: bool,
    begun: Option<Begun>,
    /// `WATCH` was said, and nothing yet that ends it.
    watches: bool,
    /// What was said with `DURABILITY`, and whether the other end has yet to hear it.
    durability: Option<Vec<u8>>,
    unheard: bool,
}

/// What was begun on a connection and goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// `TXN.BEGIN` without its end.
    Transaction,
    /// `MULTI` without its end.
    Multi,
}

impl Begun {
    /// The command that begins it.
    fn command(self) -> &'static str {
        match self {
            Begun::Transaction => "TXN.BEGIN",
            Begun::Multi => "MULTI",
        }
    }
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
        let (branch, durability) = (MAIN.to_owned(), None);
        Store {
            place,
            branch,
            astray: false,
            begun: None,
            watches: false,
            durability,
            unheard: false,
        }
    }

    /// Takes the place of a store whose connection broke: on the same branch and with writes that are as
    /// durable, because nobody asked for anything else.
    pub fn in_place_of(mut self, broken: &Store) -> Store {
        self.stray(broken.branch.clone());
        (self.durability, self.unheard) = (broken.durability.clone(), true);
        self
    }

    /// Stands on this branch, which the other end is told before the next command.
    fn stray(&mut self, branch: String) {
        (self.branch, self.astray) = (branch, true);
    }

    /// Executes a command; a refusal is a failure.
    pub fn call(&mut self, words: Vec<Vec<u8>>) -> Result<Reply> {
        let is_one_of = |known: &[&[u8]]| words.first().is_some_and(|name| is_among(name, known));
        if !is_one_of(&WITHOUT_DURABILITY) {
            self.remind()?;
        }
        if self.astray && !is_one_of(&WITHOUT_BRANCH) {
            self.find_back()?;
        }
        self.send(words)
    }

    /// Says again how durable writes have to be.
    fn remind(&mut self) -> Result<()> {
        let durability = self.durability.clone().filter(|_| self.unheard);
        let said = durability.map(|durability| self.send(vec![b"DURABILITY".to_vec(), durability]));
        said.transpose().map(|_| ())
    }

    /// Goes to the branch that the session stands on; while that is gone nothing is done elsewhere.
    fn find_back(&mut self) -> Result<()> {
        let branch = self.branch.clone();
        self.use_branch(&branch).map_err(|failure| match failure.code() {
            NOT_HELD => failure.hint(&format!(
                "the branch in use, {branch}, is gone and this was not done; `branch use NAME` goes \
                 to another one"
            )),
            _ => failure,
        })
    }

    fn send(&mut self, words: Vec<Vec<u8>>) -> Result<Reply> {
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
        self.remind()?;
        if self.astray {
            self.find_back()?;
        }
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
                (self.branch, self.astray) = (String::from_utf8_lossy(branch).into_owned(), false);
            }
            b"TXN.BEGIN" if !failed => self.begun = Some(Begun::Transaction),
            b"MULTI" if !failed => self.begun = Some(Begun::Multi),
            b"WATCH" if !failed => self.watches = true,
            // Inside MULTI it is kept like everything else.
            b"UNWATCH" if self.begun != Some(Begun::Multi) => self.watches &= failed,
            b"DURABILITY" if !failed => {
                (self.durability, self.unheard) = (words.get(1).cloned(), false);
            }
            b"RESET" if !failed => self.notice_reset(),
            name => self.notice_end(name, words.len()),
        }
    }

    fn notice_reset(&mut self) {
        (self.branch, self.astray) = (MAIN.to_owned(), false);
        (self.begun, self.watches, self.durability) = (None, false, None);
    }

    /// What ends something ends it whatever the answer, unless it was not understood.
    fn notice_end(&mut self, name: &[u8], words: usize) {
        let ended = match name {
            b"TXN.COMMIT" | b"TXN.ROLLBACK" => Begun::Transaction,
            b"EXEC" | b"DISCARD" | b"SESSION.EXEC" => Begun::Multi,
            _ => return,
        };
        let understood = if name == b"SESSION.EXEC" { 5 } else { 1 };
        if self.begun == Some(ended) && words == understood {
            self.begun = None;
            // What was watched was watched for this.
            self.watches &= ended != Begun::Multi;
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
        let back = self.use_branch(&before).inspect_err(|_| self.stray(before));
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

    /// What was begun and is not ended.
    pub fn begun(&self) -> Option<Begun> {
        self.begun
    }

    /// The command with which everything would have to begin again that goes with the connection.
    pub fn would_lose(&self) -> Option<&'static str> {
        let begun = self.begun.map(Begun::command);
        if self.watches { Some("WATCH") } else { begun }
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

fn is_among(name: &[u8], known: &[&[u8]]) -> bool {
    known.iter().any(|known| known.eq_ignore_ascii_case(name))
}

//! A session: a store that is opened when it is needed, and where its answers go.

use super::args::{Place, TlsArgs};
use super::call::Call;
use super::failure::{Failure, Result};
use super::field::{Row, tame};
use super::output::{Format, Printer};
use super::password::Credentials;
use super::reply::Reply;
use super::shape::Shape;
use super::store::Store;
use std::time::Duration;

/// Where a server is, unless told otherwise.
const SERVER: &str = "127.0.0.1:7379";

/// What one invocation works with.
pub struct Session {
    place: Place,
    /// What was given or typed, once it was needed.
    credentials: Option<Option<Credentials>>,
    store: Option<Store>,
    /// Where results go.
    pub printer: Printer,
    /// Whether commands come from the standard input.
    pub interactive: bool,
}

impl Session {
    /// A session on a place that is not opened yet.
    pub fn new(place: Place, output: Option<Format>) -> Session {
        let printer = Printer::stdout(output);
        Session { place, credentials: None, store: None, printer, interactive: false }
    }

    /// The store, for reading: a directory without a database is an error.
    pub fn store(&mut self) -> Result<&mut Store> {
        self.open(false)
    }

    /// The store, for writing: a directory without a database gets one.
    pub fn store_to_write(&mut self) -> Result<&mut Store> {
        self.open(true)
    }

    fn open(&mut self, make: bool) -> Result<&mut Store> {
        let store = match self.store.take() {
            Some(store) if store.is_broken() => self.again(&store)?,
            Some(store) => store,
            None => self.connect(make)?,
        };
        Ok(self.store.insert(store))
    }

    /// Connects anew where a connection broke, on the same branch: nobody asked for another one.
    fn again(&mut self, broken: &Store) -> Result<Store> {
        let mut store = self.connect(false)?;
        store.use_branch(broken.branch())?;
        if broken.in_transaction() {
            self.printer.note("connected again; the transaction went with the connection");
        }
        Ok(store)
    }

    /// The branch that commands work on, also before there is a store.
    pub fn branch(&self) -> &str {
        self.store.as_ref().map_or(mainstay::MAIN, Store::branch)
    }

    /// Whether the store is a directory that this process opens.
    pub fn is_directory(&self) -> bool {
        self.place.data.is_some()
    }

    /// Whether the connection broke, so that what was begun on it is gone.
    pub fn is_broken(&self) -> bool {
        self.store.as_ref().is_some_and(Store::is_broken)
    }

    fn connect(&mut self, make: bool) -> Result<Store> {
        if let Some(path) = &self.place.data {
            return Store::directory(path, make);
        }
        let credentials = self.credentials()?;
        let address = self.place.server.as_deref().unwrap_or(SERVER);
        let timeout = Duration::from_millis(self.place.timeout.max(1));
        Store::server(address, credentials.as_ref(), timeout, &self.place.tls)
    }

    /// Who talks to the server; asked for once.
    pub fn credentials(&mut self) -> Result<Option<Credentials>> {
        let credentials = match self.credentials.take() {
            Some(credentials) => credentials,
            None => Credentials::find(&self.place)?,
        };
        Ok(self.credentials.insert(credentials).clone())
    }

    /// How the server is talked to.
    pub fn tls(&self) -> &TlsArgs {
        &self.place.tls
    }

    /// Several stores at once, each with a connection or a session of its own.
    pub fn stores(&mut self, count: usize) -> Result<Vec<Store>> {
        let first = self.store_to_write()?;
        let others: Vec<_> = (0..count).map(|_| first.another()).collect();
        let made = |store: Option<Store>| store.map_or_else(|| self.connect(true), Ok);
        others.into_iter().map(made).collect()
    }

    /// Shows what a command answered; what is not there is a failure in these words.
    pub fn show(
        &mut self,
        shape: Shape,
        known: Row,
        reply: Reply,
        missing: impl FnOnce() -> String,
    ) -> Result<()> {
        self.show_typed(shape, known, reply, false, missing)
    }

    /// The same, with values read as JSON when that is wanted.
    pub fn show_typed(
        &mut self,
        shape: Shape,
        known: Row,
        reply: Reply,
        json: bool,
        missing: impl FnOnce() -> String,
    ) -> Result<()> {
        match self.printer.shown(shape.show(reply, json), known, shape.bare()) {
            true => Ok(()),
            false => Err(Failure::not_held(missing())),
        }
    }

    /// Asks for the newest revision.
    pub fn revision(&mut self) -> Result<u64> {
        let reply = self.store()?.call(Call::new("REVISION").words())?;
        reply.as_u64().ok_or_else(|| Failure::error(format!("REVISION answered {reply:?}")))
    }

    /// What stands before a line: the store, its branch unless it is `main`, `*` in a transaction.
    pub fn prompt(&self) -> String {
        let Some(store) = self.store.as_ref().filter(|store| !store.is_broken()) else {
            return "not connected> ".to_owned();
        };
        let branch = match store.branch() {
            mainstay::MAIN => String::new(),
            branch => format!(" [{}]", tame(branch)),
        };
        let open = if store.in_transaction() { "*" } else { "" };
        format!("{}{branch}{open}> ", store.name())
    }

    /// Ends in good order.
    pub fn close(&mut self) -> Result<()> {
        self.store.take().map_or(Ok(()), Store::close)
    }
}

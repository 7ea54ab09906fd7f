//! The state of one invocation: a lazily opened store, and the printer for its results.

use super::args::{Place, TlsArgs};
use super::call::Call;
use super::failure::{Failure, Result};
use super::field::{Row, tame};
use super::output::{Format, Printer};
use super::password::Credentials;
use super::reply::Reply;
use super::shape::Shape;
use super::store::{Begun, Store};
use super::wire;
use mainstay::{Database, remote};
use std::time::Duration;

/// The default server address.
const SERVER: &str = "127.0.0.1:7379";

/// The state of one invocation, or of a repl.
pub struct Session {
    place: Place,
    /// The credentials, once they were needed and found.
    credentials: Option<Option<Credentials>>,
    store: Option<Store>,
    /// The printer for results.
    pub printer: Printer,
    /// True in the repl.
    pub interactive: bool,
}

impl Session {
    /// A session whose store is opened on first use.
    pub fn new(place: Place, output: Option<Format>) -> Session {
        let printer = Printer::stdout(output);
        Session { place, credentials: None, store: None, printer, interactive: false }
    }

    /// The store, for reading: a directory without a database is an error.
    pub fn store(&mut self) -> Result<&mut Store> {
        self.open(false)
    }

    /// The store, for writing: a directory without a database gets a new one.
    pub fn store_to_write(&mut self) -> Result<&mut Store> {
        self.open(true)
    }

    fn open(&mut self, make: bool) -> Result<&mut Store> {
        if self.is_broken() {
            self.connect_again()?;
        }
        let store = match self.store.take() {
            Some(store) => store,
            None => self.connect(make)?,
        };
        Ok(self.store.insert(store))
    }

    /// Reconnects after a broken connection. Until that succeeds, the broken store stays, because it has the
    /// session's branch and durability. A transaction begun on the old connection is lost. The current line
    /// must not run outside of it, so it fails.
    fn connect_again(&mut self) -> Result<()> {
        let fresh = self.connect(false)?;
        let Some(broken) = self.store.take() else { return Ok(()) };
        self.store = Some(fresh.in_place_of(&broken));
        match broken.would_lose() {
            None => Ok(()),
            Some(command) => Err(Failure::error(format!(
                "connected again, but what {command} began went with the old connection: this line \
                 was not run, begin again with {command}"
            ))),
        }
    }

    /// The current branch, also before the store is opened.
    pub fn branch(&self) -> &str {
        self.store.as_ref().map_or(mainstay::MAIN, Store::branch)
    }

    /// True if the store is a directory that this process opens.
    pub fn is_directory(&self) -> bool {
        self.place.data.is_some()
    }

    /// The open transaction or `MULTI` of an intact connection.
    pub fn begun(&self) -> Option<Begun> {
        self.store.as_ref().filter(|store| !store.is_broken()).and_then(Store::begun)
    }

    /// True if the connection broke, so that an open transaction is lost.
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

    /// A database handle, for work beyond single commands: the opened directory, or a separate connection to
    /// the server.
    pub fn database(&mut self, make: bool) -> Result<Database> {
        if self.is_directory() {
            return self.open(make)?.database().cloned();
        }
        let address = self.place.server.as_deref().unwrap_or(SERVER);
        let timeout = Duration::from_millis(self.place.timeout.max(1));
        let mut options = remote::Options::new(address).timeout(timeout);
        if self.place.tls.is_wanted() {
            options = options.tls(wire::wanted(&self.place.tls)?);
        }
        if let Some(Credentials { user, password }) = self.credentials()? {
            let password = std::str::from_utf8(password.expose());
            let password = password.map_err(|_| Failure::error("the password is no text"))?;
            options = options.login(&user, password);
        }
        Ok(options.connect()?)
    }

    /// The credentials for the server. The user is prompted at most once.
    pub fn credentials(&mut self) -> Result<Option<Credentials>> {
        let credentials = match self.credentials.take() {
            Some(credentials) => credentials,
            None => Credentials::find(&self.place)?,
        };
        Ok(self.credentials.insert(credentials).clone())
    }

    /// The TLS options.
    pub fn tls(&self) -> &TlsArgs {
        &self.place.tls
    }

    /// Opens `count` stores, each with its own connection or session.
    pub fn stores(&mut self, count: usize) -> Result<Vec<Store>> {
        let first = self.store_to_write()?;
        let others: Vec<_> = (0..count).map(|_| first.another()).collect();
        others.into_iter().map(|store| store.map_or_else(|| self.connect(true), Ok)).collect()
    }

    /// Prints the reply to a command. An empty result fails with the message of `missing`.
    pub fn show(
        &mut self,
        shape: Shape,
        known: Row,
        reply: Reply,
        missing: impl FnOnce() -> String,
    ) -> Result<()> {
        self.show_typed(shape, known, reply, false, missing)
    }

    /// Like `show`, but parses values as JSON if `json` is true.
    pub fn show_typed(
        &mut self,
        shape: Shape,
        known: Row,
        reply: Reply,
        json: bool,
        missing: impl FnOnce() -> String,
    ) -> Result<()> {
        if self.printer.shown(shape.show(reply, json), known, shape.bare()) {
            Ok(())
        } else {
            Err(Failure::not_held(missing()))
        }
    }

    /// Requests the newest revision.
    pub fn revision(&mut self) -> Result<u64> {
        let reply = self.store()?.call(Call::new("REVISION").words())?;
        reply.as_u64().ok_or_else(|| Failure::error(format!("REVISION answered {reply:?}")))
    }

    /// The prompt of the repl: the store, its branch unless it is `main`, and `*` in a transaction or after
    /// `MULTI`.
    pub fn prompt(&self) -> String {
        let place = match self.store.as_ref().filter(|store| !store.is_broken()) {
            Some(store) => store.name(),
            None => "not connected".to_owned(),
        };
        let branch = match self.branch() {
            mainstay::MAIN => String::new(),
            branch => format!(" [{}]", tame(branch)),
        };
        let open = if self.begun().is_some() { "*" } else { "" };
        format!("{place}{branch}{open}> ")
    }

    /// Closes the store.
    pub fn close(&mut self) -> Result<()> {
        self.store.take().map_or(Ok(()), Store::close)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay::{At, Database};
    use mainstay_server::resp::{self, Handle, Settings, Shared};
    use std::net::{SocketAddr, TcpListener};

    fn serve(db: &Database, address: &str) -> (Handle, SocketAddr) {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Shared::new(db.clone(), Settings::default());
        (resp::serve(listener, &shared).unwrap(), address)
    }

    fn session(address: SocketAddr) -> Session {
        let place = Place {
            data: None,
            server: Some(address.to_string()),
            user: None,
            password_file: None,
            timeout: 60_000,
            tls: TlsArgs::default(),
        };
        Session::new(place, None)
    }

    fn ask(session: &mut Session, line: &str) -> Result<Reply> {
        let words = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        session.store()?.call(words)
    }

    #[track_caller]
    fn refused(session: &mut Session, line: &str) -> String {
        ask(session, line).expect_err(line).to_string()
    }

    /// A session on the branch draft that has sent this line, and whose server has then stopped.
    fn left(db: &Database, said: &str) -> (Session, String) {
        let (handle, address) = serve(db, "127.0.0.1:0");
        let mut session = session(address);
        ask(&mut session, "BRANCH.USE draft").unwrap();
        ask(&mut session, said).unwrap();
        let address = leave(&mut session, handle, address);
        (session, address)
    }

    /// Stops the server and lets the session notice the broken connection.
    fn leave(session: &mut Session, handle: Handle, address: SocketAddr) -> String {
        handle.stop();
        assert!(refused(session, "CELL.SET a lost").contains("broke"));
        address.to_string()
    }

    fn with_draft() -> Database {
        let db = Database::memory().unwrap();
        db.fork("draft", mainstay::MAIN, At::Latest).unwrap();
        db
    }

    #[test]
    fn a_session_stays_on_its_branch_however_often_connecting_again_fails() {
        let db = with_draft();
        let (mut session, address) = left(&db, "PING");
        for _ in 0..2 {
            assert!(refused(&mut session, "CELL.SET a lost").contains("nobody listens"));
            assert_eq!(session.prompt(), "not connected [draft]> ");
        }
        let (handle, _) = serve(&db, &address);
        ask(&mut session, "CELL.SET a 1").unwrap();
        assert_eq!(session.prompt(), format!("{address} [draft]> "));
        assert_eq!(db.cells().get("a").unwrap(), None);
        assert_eq!(db.branch("draft").unwrap().cells().get("a").unwrap(), Some("1".into()));
        handle.stop();
    }

    #[test]
    fn a_lost_transaction_is_told_and_the_line_is_not_run_outside_of_it() {
        for begin in ["TXN.BEGIN", "MULTI"] {
            let db = with_draft();
            let (mut session, address) = left(&db, begin);
            assert!(refused(&mut session, "CELL.SET a 1").contains("nobody listens"));
            let (handle, _) = serve(&db, &address);
            let said = refused(&mut session, "CELL.SET a 1");
            assert!(said.contains(&format!("begin again with {begin}")), "{said}");
            assert_eq!(session.prompt(), format!("{address} [draft]> "));
            assert_eq!(ask(&mut session, "CELL.GET a").unwrap(), Reply::Nil);
            handle.stop();
        }
    }

    #[test]
    fn what_was_watched_is_watched_no_more_and_that_is_told() {
        for then in ["PING", "MULTI"] {
            let db = with_draft();
            let (handle, address) = serve(&db, "127.0.0.1:0");
            let mut session = session(address);
            ask(&mut session, "WATCH a").unwrap();
            ask(&mut session, then).unwrap();
            let address = leave(&mut session, handle, address);
            let (handle, _) = serve(&db, &address);
            let said = refused(&mut session, "MULTI");
            assert!(said.contains("begin again with WATCH"), "{said}");
            ask(&mut session, "CELL.SET a 1").unwrap();
            handle.stop();
        }
    }

    #[test]
    fn what_is_watched_no_more_is_not_missed() {
        for lines in [
            &["UNWATCH"][..],
            &["MULTI", "EXEC"],
            &["MULTI", "DISCARD"],
            &["MULTI", "UNWATCH", "EXEC"],
            &["RESET"],
        ] {
            let db = with_draft();
            let (handle, address) = serve(&db, "127.0.0.1:0");
            let mut session = session(address);
            ask(&mut session, "WATCH a").unwrap();
            lines.iter().for_each(|line| drop(ask(&mut session, line).unwrap()));
            let address = leave(&mut session, handle, address);
            let (handle, _) = serve(&db, &address);
            ask(&mut session, "CELL.SET a 1").unwrap();
            handle.stop();
        }
    }

    #[test]
    fn writes_are_as_durable_as_was_said_also_on_the_next_connection() {
        let root = tempfile::tempdir().unwrap();
        let db = Database::open(root.path()).unwrap();
        db.fork("draft", mainstay::MAIN, At::Latest).unwrap();
        let (mut session, address) = left(&db, "DURABILITY MEMORY");
        let (handle, _) = serve(&db, &address);
        ask(&mut session, "CELL.SET a 1").unwrap();
        assert!(db.durable_revision() < db.revision(), "nothing was synced for it");
        ask(&mut session, "DURABILITY SYNC").unwrap();
        ask(&mut session, "CELL.SET a 2").unwrap();
        assert_eq!(db.durable_revision(), db.revision());
        let address = leave(&mut session, handle, address.parse().unwrap());
        let (handle, _) = serve(&db, &address);
        ask(&mut session, "CELL.SET a 3").unwrap();
        assert_eq!(db.durable_revision(), db.revision(), "what was said last");
        handle.stop();
    }

    #[test]
    fn while_its_branch_is_gone_a_session_does_nothing_elsewhere() {
        let db = with_draft();
        let (mut session, address) = left(&db, "PING");
        db.delete_branch("draft").unwrap();
        let (handle, _) = serve(&db, &address);
        for _ in 0..2 {
            let said = refused(&mut session, "CELL.SET a 1");
            assert!(said.contains("draft, is gone") && said.contains("branch use"), "{said}");
        }
        ask(&mut session, "BRANCH.LIST").unwrap();
        assert_eq!(db.cells().get("a").unwrap(), None);
        ask(&mut session, "branch.use main").unwrap();
        ask(&mut session, "CELL.SET a 1").unwrap();
        assert_eq!(db.cells().get("a").unwrap(), Some("1".into()));
        handle.stop();
    }

    #[test]
    fn a_session_that_cannot_come_back_to_its_branch_does_nothing_elsewhere() {
        let db = with_draft();
        let (handle, address) = serve(&db, "127.0.0.1:0");
        let mut session = session(address);
        ask(&mut session, "BRANCH.USE draft").unwrap();
        session.store().unwrap().on(Some("main"), |_| Ok(db.delete_branch("draft")?)).unwrap_err();
        assert!(refused(&mut session, "CELL.SET a 1").contains("is gone"));
        assert_eq!(session.branch(), "draft");
        handle.stop();
    }
}

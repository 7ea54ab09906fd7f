//! The state of one invocation: a lazily opened store, and the printer for its results.

use super::args::{StoreArgs, TlsArgs};
use super::command_builder::CommandBuilder;
use super::failure::{Failure, Result};
use super::field::{Row, escape_control};
use super::output::{Format, Printer};
use super::password::Credentials;
use super::reply::Reply;
use super::reply_format::ReplyFormat;
use super::store::{OpenTransaction, Store};
use super::transport;
use mainstay::{Database, remote};
use std::time::Duration;

/// The default server address.
const SERVER: &str = "127.0.0.1:7379";

/// The state of one invocation, or of a repl.
pub struct Context {
    store_args: StoreArgs,
    /// The credentials, once they were needed and found.
    credentials: Option<Option<Credentials>>,
    store: Option<Store>,
    /// The printer for results.
    pub printer: Printer,
    /// True in the repl.
    pub interactive: bool,
}

impl Context {
    /// A context whose store is opened on first use.
    pub fn new(store_args: StoreArgs, output: Option<Format>) -> Context {
        let printer = Printer::stdout(output);
        Context { store_args, credentials: None, store: None, printer, interactive: false }
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
            self.reconnect()?;
        }
        let store = match self.store.take() {
            Some(store) => store,
            None => self.connect(make)?,
        };
        Ok(self.store.insert(store))
    }

    /// Reconnects after a broken connection. Until that succeeds, the broken store stays, because it has the
    /// branch and durability in use. A transaction begun on the old connection is lost. The current line
    /// must not run outside of it, so it fails.
    fn reconnect(&mut self) -> Result<()> {
        let fresh = self.connect(false)?;
        let Some(broken) = self.store.take() else { return Ok(()) };
        self.store = Some(fresh.with_state_of(&broken));
        match broken.command_to_repeat() {
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
        self.store_args.data.is_some()
    }

    /// The open transaction or `MULTI` of an intact connection.
    pub fn open_transaction(&self) -> Option<OpenTransaction> {
        self.store.as_ref().filter(|store| !store.is_broken()).and_then(Store::open_transaction)
    }

    /// True if the connection broke, so that an open transaction is lost.
    pub fn is_broken(&self) -> bool {
        self.store.as_ref().is_some_and(Store::is_broken)
    }

    fn connect(&mut self, make: bool) -> Result<Store> {
        if let Some(path) = &self.store_args.data {
            return Store::directory(path, make);
        }
        let credentials = self.credentials()?;
        let address = self.store_args.server.as_deref().unwrap_or(SERVER);
        let timeout = Duration::from_millis(self.store_args.timeout.max(1));
        Store::server(address, credentials.as_ref(), timeout, &self.store_args.tls)
    }

    /// A database handle, for work beyond single commands: the opened directory, or a separate connection to
    /// the server.
    pub fn database(&mut self, make: bool) -> Result<Database> {
        if self.is_directory() {
            return self.open(make)?.database().cloned();
        }
        let address = self.store_args.server.as_deref().unwrap_or(SERVER);
        let timeout = Duration::from_millis(self.store_args.timeout.max(1));
        let mut options = remote::Options::new(address).timeout(timeout);
        if self.store_args.tls.is_enabled() {
            options = options.tls(transport::tls_options(&self.store_args.tls)?);
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
            None => Credentials::find(&self.store_args)?,
        };
        Ok(self.credentials.insert(credentials).clone())
    }

    /// The TLS options.
    pub fn tls(&self) -> &TlsArgs {
        &self.store_args.tls
    }

    /// Opens `count` stores, each with its own connection or session.
    pub fn stores(&mut self, count: usize) -> Result<Vec<Store>> {
        let first = self.store_to_write()?;
        let others: Vec<_> = (0..count).map(|_| first.open_another()).collect();
        others.into_iter().map(|store| store.map_or_else(|| self.connect(true), Ok)).collect()
    }

    /// Prints the reply to a command. An empty result fails with the message of `missing`.
    pub fn show(
        &mut self,
        format: ReplyFormat,
        known: Row,
        reply: Reply,
        missing: impl FnOnce() -> String,
    ) -> Result<()> {
        self.show_typed(format, known, reply, false, missing)
    }

    /// Like `show`, but parses values as JSON if `json` is true.
    pub fn show_typed(
        &mut self,
        format: ReplyFormat,
        known: Row,
        reply: Reply,
        json: bool,
        missing: impl FnOnce() -> String,
    ) -> Result<()> {
        if self.printer.result(format.apply(reply, json), known, format.raw_fields()) {
            Ok(())
        } else {
            Err(Failure::negative(missing()))
        }
    }

    /// Requests the newest revision.
    pub fn revision(&mut self) -> Result<u64> {
        let reply = self.store()?.call(CommandBuilder::new("REVISION").words())?;
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
            branch => format!(" [{}]", escape_control(branch)),
        };
        let open = if self.open_transaction().is_some() { "*" } else { "" };
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

    fn context(address: SocketAddr) -> Context {
        let store_args = StoreArgs {
            data: None,
            server: Some(address.to_string()),
            user: None,
            password_file: None,
            timeout: 60_000,
            tls: TlsArgs::default(),
        };
        Context::new(store_args, None)
    }

    fn ask(context: &mut Context, line: &str) -> Result<Reply> {
        let words = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        context.store()?.call(words)
    }

    #[track_caller]
    fn refused(context: &mut Context, line: &str) -> String {
        ask(context, line).expect_err(line).to_string()
    }

    /// A context on the branch draft that has sent this line, and whose server has then stopped.
    fn left(db: &Database, said: &str) -> (Context, String) {
        let (handle, address) = serve(db, "127.0.0.1:0");
        let mut context = context(address);
        ask(&mut context, "BRANCH.USE draft").unwrap();
        ask(&mut context, said).unwrap();
        let address = leave(&mut context, handle, address);
        (context, address)
    }

    /// Stops the server and lets the context notice the broken connection.
    fn leave(context: &mut Context, handle: Handle, address: SocketAddr) -> String {
        handle.stop();
        assert!(refused(context, "CELL.SET a lost").contains("broke"));
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
        let (mut context, address) = left(&db, "PING");
        for _ in 0..2 {
            assert!(refused(&mut context, "CELL.SET a lost").contains("nobody listens"));
            assert_eq!(context.prompt(), "not connected [draft]> ");
        }
        let (handle, _) = serve(&db, &address);
        ask(&mut context, "CELL.SET a 1").unwrap();
        assert_eq!(context.prompt(), format!("{address} [draft]> "));
        assert_eq!(db.cells().get("a").unwrap(), None);
        assert_eq!(db.branch("draft").unwrap().cells().get("a").unwrap(), Some("1".into()));
        handle.stop();
    }

    #[test]
    fn a_lost_transaction_is_told_and_the_line_is_not_run_outside_of_it() {
        for begin in ["TXN.BEGIN", "MULTI"] {
            let db = with_draft();
            let (mut context, address) = left(&db, begin);
            assert!(refused(&mut context, "CELL.SET a 1").contains("nobody listens"));
            let (handle, _) = serve(&db, &address);
            let said = refused(&mut context, "CELL.SET a 1");
            assert!(said.contains(&format!("begin again with {begin}")), "{said}");
            assert_eq!(context.prompt(), format!("{address} [draft]> "));
            assert_eq!(ask(&mut context, "CELL.GET a").unwrap(), Reply::Nil);
            handle.stop();
        }
    }

    #[test]
    fn what_was_watched_is_watched_no_more_and_that_is_told() {
        for then in ["PING", "MULTI"] {
            let db = with_draft();
            let (handle, address) = serve(&db, "127.0.0.1:0");
            let mut context = context(address);
            ask(&mut context, "WATCH a").unwrap();
            ask(&mut context, then).unwrap();
            let address = leave(&mut context, handle, address);
            let (handle, _) = serve(&db, &address);
            let said = refused(&mut context, "MULTI");
            assert!(said.contains("begin again with WATCH"), "{said}");
            ask(&mut context, "CELL.SET a 1").unwrap();
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
            let mut context = context(address);
            ask(&mut context, "WATCH a").unwrap();
            lines.iter().for_each(|line| drop(ask(&mut context, line).unwrap()));
            let address = leave(&mut context, handle, address);
            let (handle, _) = serve(&db, &address);
            ask(&mut context, "CELL.SET a 1").unwrap();
            handle.stop();
        }
    }

    #[test]
    fn writes_are_as_durable_as_was_said_also_on_the_next_connection() {
        let root = tempfile::tempdir().unwrap();
        let db = Database::open(root.path()).unwrap();
        db.fork("draft", mainstay::MAIN, At::Latest).unwrap();
        let (mut context, address) = left(&db, "DURABILITY MEMORY");
        let (handle, _) = serve(&db, &address);
        ask(&mut context, "CELL.SET a 1").unwrap();
        assert!(db.durable_revision() < db.revision(), "nothing was synced for it");
        ask(&mut context, "DURABILITY SYNC").unwrap();
        ask(&mut context, "CELL.SET a 2").unwrap();
        assert_eq!(db.durable_revision(), db.revision());
        let address = leave(&mut context, handle, address.parse().unwrap());
        let (handle, _) = serve(&db, &address);
        ask(&mut context, "CELL.SET a 3").unwrap();
        assert_eq!(db.durable_revision(), db.revision(), "what was said last");
        handle.stop();
    }

    #[test]
    fn while_its_branch_is_gone_a_session_does_nothing_elsewhere() {
        let db = with_draft();
        let (mut context, address) = left(&db, "PING");
        db.delete_branch("draft").unwrap();
        let (handle, _) = serve(&db, &address);
        for _ in 0..2 {
            let said = refused(&mut context, "CELL.SET a 1");
            assert!(said.contains("draft, is gone") && said.contains("branch use"), "{said}");
        }
        ask(&mut context, "BRANCH.LIST").unwrap();
        assert_eq!(db.cells().get("a").unwrap(), None);
        ask(&mut context, "branch.use main").unwrap();
        ask(&mut context, "CELL.SET a 1").unwrap();
        assert_eq!(db.cells().get("a").unwrap(), Some("1".into()));
        handle.stop();
    }

    #[test]
    fn a_session_that_cannot_come_back_to_its_branch_does_nothing_elsewhere() {
        let db = with_draft();
        let (handle, address) = serve(&db, "127.0.0.1:0");
        let mut context = context(address);
        ask(&mut context, "BRANCH.USE draft").unwrap();
        context.store().unwrap().on(Some("main"), |_| Ok(db.delete_branch("draft")?)).unwrap_err();
        assert!(refused(&mut context, "CELL.SET a 1").contains("is gone"));
        assert_eq!(context.branch(), "draft");
        handle.stop();
    }
}

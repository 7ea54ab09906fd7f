//! Test fixture for a case: a database in memory or on disk, and a manual clock.

use mainstay::{Cells, Clock, Database, ManualClock, Options, Records, Runs};
use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Start time of the clock, in microseconds. Any time long after the epoch works.
pub const START_US: u64 = 1_700_000_000_000_000;

/// A second handle to a database through a layer such as a server.
pub struct Served {
    /// The handle that cases use.
    pub db: Database,
    /// The server. It is declared after the handle, so that it is dropped after it.
    pub face: Box<dyn Any + Send + Sync>,
}

/// Puts a server between the cases and a database.
pub type Serve = fn(&Database) -> Served;

/// A database with its clock, directory and server.
pub struct TestDb {
    clock: Arc<ManualClock>,
    on_disk: bool,
    settings: Box<dyn Fn(Options) -> Options + Send + Sync>,
    served: Option<Served>,
    db: Option<Database>,
    serve: Option<Serve>,
    started: usize,
    /// Dropped last, because an open database would still write into the directory.
    files: TempDir,
}

impl TestDb {
    /// A fresh database in memory.
    pub fn memory() -> TestDb {
        TestDb::new(false, None)
    }

    /// A fresh database in memory, which cases access through a server.
    pub fn served(serve: Serve) -> TestDb {
        TestDb::new(false, Some(serve))
    }

    /// A fresh database in a directory of its own.
    pub fn disk() -> TestDb {
        TestDb::new(true, None)
    }

    fn new(on_disk: bool, serve: Option<Serve>) -> TestDb {
        let clock = ManualClock::new(START_US);
        let files = TempDir::new().unwrap();
        let settings = Box::new(|options| options);
        let served = None;
        let db = None;
        let mut world = TestDb { clock, files, on_disk, settings, served, db, serve, started: 0 };
        world.open();
        world
    }

    /// Replaces the database with an empty one that uses other settings.
    pub fn configure(
        &mut self,
        settings: impl Fn(Options) -> Options + Send + Sync + 'static,
    ) -> &mut TestDb {
        self.served = None;
        self.db = None;
        self.settings = Box::new(settings);
        self.started += 1;
        self.open();
        self
    }

    /// Closes the database and opens it again. Only a database on disk keeps its data.
    pub fn reopen(&mut self) {
        self.reopen_after(|_| {});
    }

    /// Closes the database, runs `between` on its directory, and opens it again.
    pub fn reopen_after(&mut self, between: impl FnOnce(&Path)) {
        assert!(self.on_disk, "only a database on disk can be opened again");
        self.db().close().unwrap();
        self.db = None;
        between(&self.directory());
        self.open();
    }

    /// Like [`TestDb::reopen`], but without `close`: only the last handle is dropped.
    pub fn drop_and_reopen(&mut self) {
        self.db = None;
        self.open();
    }

    fn open(&mut self) {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let options = (self.settings)(Options::new().sweep_interval(None)).clock(clock);
        let opened = if self.on_disk { options.open(self.directory()) } else { options.memory() };
        let db = opened.unwrap();
        self.served = self.serve.map(|serve| serve(&db));
        self.db = Some(db);
    }

    /// The database handle that cases use. It is the served handle if the world has a server.
    pub fn db(&self) -> &Database {
        self.served.as_ref().map_or_else(|| self.beside(), |served| &served.db)
    }

    /// The local database handle, even if the world has a server. Exports and imports use it.
    pub fn beside(&self) -> &Database {
        self.db.as_ref().unwrap()
    }

    /// The cells of `main`.
    pub fn cells(&self) -> Cells {
        self.db().cells()
    }

    /// The cells of a branch.
    pub fn on(&self, branch: &str) -> Cells {
        self.db().branch(branch).unwrap().cells()
    }

    /// The records of `main`.
    pub fn records(&self) -> Records {
        self.db().records()
    }

    /// The records of a branch.
    pub fn records_on(&self, branch: &str) -> Records {
        self.db().branch(branch).unwrap().records()
    }

    /// The runs of `main`.
    pub fn runs(&self) -> Runs {
        self.db().runs()
    }

    /// The runs of a branch.
    pub fn runs_on(&self, branch: &str) -> Runs {
        self.db().branch(branch).unwrap().runs()
    }

    /// The clock.
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Wall-clock time in microseconds.
    pub fn wall_us(&self) -> u64 {
        self.clock.wall_us()
    }

    /// Advances the clock.
    pub fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// Advances the clock by milliseconds.
    pub fn pass_ms(&self, ms: u64) {
        self.pass(Duration::from_millis(ms));
    }

    /// Whether the database is on disk.
    pub fn is_on_disk(&self) -> bool {
        self.on_disk
    }

    /// The directory of the database.
    pub fn directory(&self) -> PathBuf {
        self.files.path().join(format!("db{}", self.started))
    }

    /// A path for a file of the test, next to the database directory.
    pub fn file(&self, name: &str) -> PathBuf {
        let files: &Path = self.files.path();
        files.join(name)
    }
}

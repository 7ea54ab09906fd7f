//! The simulated server: a database without threads, on a disk that loses power.

use super::book::{Answered, Book};
use super::check;
use super::follower::Follower;
use super::script::Script;
use super::trace::{Trace, short};
use crate::disk::{Action, Event, Fault, Image, LogFiles, Model, Platter, Tree, Volume};
use crate::drill::Outcome;
use mainstay::{
    CellCommand, Code, Command, Database, Durability, Error, Feed, Filter, Options, Receipt,
    Result, Transaction,
};
use mainstay_conformance::random::Random;
use mainstay_sessions::simulation::Simulation;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// The server, running or not.
pub struct Server {
    script: Script,
    simulation: Arc<Simulation>,
    trace: Trace,
    book: Arc<Book>,
    home: tempfile::TempDir,
    inside: Mutex<Inside>,
}

struct Inside {
    random: Random,
    /// The disk of the log. Each power failure replaces it by one with the surviving data.
    volume: Volume,
    platter: Platter,
    /// `None` while it does not run.
    db: Option<Database>,
    /// Counts starts and falls: work planned in an earlier turn is void.
    turn: u64,
    /// Whether a sync has failed, so that a restart is planned.
    ailing: bool,
    /// Whether the disk is full, or a sync is about to fail.
    troubled: bool,
    /// Whether faults have ended.
    calm: bool,
    /// Tasks that wait for messages.
    listening: Vec<Waker>,
    follower: Follower,
}

impl Server {
    /// Creates a server that has not been started.
    pub fn new(
        script: &Script,
        simulation: &Arc<Simulation>,
        trace: &Trace,
        book: &Arc<Book>,
    ) -> Outcome<Arc<Server>> {
        let home = home().map_err(|error| format!("no temporary directory: {error}"))?;
        let id = Random::of(&[script.seed, 0x1D]).next();
        give_identity(&home.path().join("db"), id)
            .map_err(|error| format!("no database: {error}"))?;
        let inside = Inside {
            random: Random::of(&[script.seed, 0x53_45_52]),
            volume: Volume::default(),
            platter: Platter::default(),
            db: None,
            turn: 0,
            ailing: false,
            troubled: false,
            calm: false,
            listening: Vec::new(),
            follower: Follower::default(),
        };
        Ok(Arc::new(Server {
            script: script.clone(),
            simulation: simulation.clone(),
            trace: trace.clone(),
            book: book.clone(),
            home,
            inside: Mutex::new(inside),
        }))
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, what: std::fmt::Arguments<'_>) {
        self.trace.line(self.simulation.now_us(), "server", what);
    }

    /// Executes a transaction of a client.
    pub fn execute(self: &Arc<Server>, transaction: Transaction) -> Result<Receipt> {
        let durability = transaction.durability.unwrap_or(Durability::Sync);
        let id = operation_of(&transaction);
        let what = describe(&transaction);
        let answer = self.attend(&what, |db| {
            let answer = db.execute(transaction);
            if let Ok(receipt) = &answer {
                self.promise(durability, id, receipt);
            }
            answer
        });
        let listening = std::mem::take(&mut self.inside().listening);
        listening.into_iter().for_each(Waker::wake);
        answer
    }

    fn promise(&self, durability: Durability, id: Option<u64>, receipt: &Receipt) {
        self.book.promise(durability, id, receipt);
        let answered = id.and_then(|id| Answered::of(id, receipt));
        let sequence = answered.map_or(0, |answered| answered.sequence);
        let Receipt { revision, stamp, repeated, .. } = receipt;
        self.say(format_args!("  answers r{revision} t{stamp} seq {sequence} repeated {repeated}"));
    }

    /// Calls the database, and records its effects on the disk. If power fails during the call, the
    /// caller does not learn the result, unless it was answered before.
    pub fn attend<T>(
        self: &Arc<Server>,
        what: &str,
        act: impl FnOnce(&Database) -> Result<T>,
    ) -> Result<T> {
        self.invite_trouble();
        let Some(db) = self.inside().db.clone() else { return Err(away()) };
        self.book.count(|tally| tally.calls += 1);
        self.say(format_args!("{what}"));
        let answer = act(&db);
        if let Err(error) = &answer {
            self.say(format_args!("  refuses: {}", error.code().name()));
        }
        let has_power = self.note_disk();
        if !has_power {
            drop(db);
            self.book.count(|tally| tally.inside += 1);
            self.fall("in a call");
            return answer.map_err(|_| Error::new(Code::UnknownOutcome, "the server went away"));
        }
        if answer.is_err() && db.stats().read_only {
            self.fail();
        }
        answer
    }

    /// Causes a random fault.
    fn invite_trouble(self: &Arc<Server>) {
        let troubles = self.script.troubles;
        let mut inside = self.inside();
        if inside.calm || inside.db.is_none() {
            return;
        }
        let mut falls = |often: u64| inside.random.below(1000) < often;
        let cut = falls(troubles.cuts);
        let full = falls(troubles.full);
        let sync = falls(troubles.syncs);
        if cut {
            if inside.random.chance(30) {
                drop(inside);
                return self.fall("between calls");
            }
            let calls = inside.random.below(14);
            inside.volume.faults().cut_power(calls);
        }
        if inside.troubled || !(full || sync) {
            return;
        }
        inside.troubled = true;
        if full {
            self.fill(&mut inside)
        } else {
            let fault = [Fault::Io, Fault::Half][inside.random.below(2) as usize];
            let n = inside.random.below(3);
            inside.volume.faults().plan(Action::Sync, n, 1, fault);
        }
    }

    /// Makes the disk full for a while.
    fn fill(self: &Arc<Server>, inside: &mut Inside) {
        self.book.count(|tally| tally.full += 1);
        self.say(format_args!("the disk is full"));
        inside.volume.faults().plan(Action::Write, 0, u64::MAX, Fault::Full);
        let server = self.clone();
        let turn = inside.turn;
        let time = Duration::from_millis(20 + inside.random.below(1000));
        self.simulation.spawn(async move {
            server.simulation.sleep(time).await;
            server.empty(turn);
        });
    }

    fn empty(&self, turn: u64) {
        let mut inside = self.inside();
        if inside.turn == turn {
            inside.volume.faults().clear_plan();
            inside.troubled = false;
            self.say(format_args!("the disk has room"));
        }
    }

    /// Handles a failed sync: the server is restarted later. The disk keeps its power.
    fn fail(self: &Arc<Server>) {
        let mut inside = self.inside();
        if std::mem::replace(&mut inside.ailing, true) {
            return;
        }
        let server = self.clone();
        let turn = inside.turn;
        let time = Duration::from_millis(inside.random.below(400));
        self.say(format_args!("a sync has failed"));
        self.book.count(|tally| tally.failed_syncs += 1);
        self.simulation.spawn(async move {
            server.simulation.sleep(time).await;
            if server.inside().turn == turn {
                server.stop();
                server.start_again();
            }
        });
    }

    /// Ends the process. The disk stays as it is.
    fn stop(&self) {
        let db = self.inside().db.take();
        if let Some(db) = db {
            // The process ends even if closing fails.
            let _ = db.close();
        }
        self.note_disk();
        self.inside().volume.faults().clear_plan();
        self.wake();
    }

    fn wake(&self) {
        let listening = std::mem::take(&mut self.inside().listening);
        listening.into_iter().for_each(Waker::wake);
    }

    /// Cuts power. The surviving data is opened again later.
    pub fn fall(self: &Arc<Server>, when: &str) {
        self.inside().volume.faults().cut_power_now();
        self.stop();
        let mut inside = self.inside();
        let Inside { random, platter, .. } = &mut *inside;
        let model = Model::ALL[random.below(6) as usize];
        let image = platter.cut(model, random);
        self.book.count(|tally| tally.cuts += 1);
        self.say(format_args!("POWER CUT {when}, model {model}, left: {}", left(&image)));
        let tree = Tree::of(&image);
        inside.platter = Platter::of(&tree);
        inside.volume = Volume::new(tree);
        inside.turn += 1;
        let server = self.clone();
        let turn = inside.turn;
        let time = Duration::from_millis(1 + inside.random.below(1500));
        self.simulation.spawn(async move {
            server.simulation.sleep(time).await;
            if server.inside().turn == turn {
                server.start_again();
            }
        });
    }

    fn start_again(self: &Arc<Server>) {
        if let Err(wrong) = self.start() {
            self.book.wrong(wrong);
        }
    }

    /// Starts the server. Power may fail during the start.
    pub fn start(self: &Arc<Server>) -> Outcome<()> {
        let volume = {
            let mut inside = self.inside();
            if !inside.calm && self.script.troubles.cuts > 0 && inside.random.chance(10) {
                let calls = inside.random.below(80);
                inside.volume.faults().cut_power(calls);
            }
            inside.volume.clone()
        };
        let opened = options(&self.simulation, &volume).open(self.home.path().join("db"));
        let has_power = self.note_disk();
        match opened {
            Ok(db) if has_power => self.stand(db, &volume),
            Err(error) if has_power => Err(format!("the server does not start: {error}")),
            _ => {
                self.book.count(|tally| tally.starting += 1);
                drop(opened);
                self.fall("while starting");
                Ok(())
            }
        }
    }

    /// Handles a successful start, and checks that all promised revisions are present.
    fn stand(&self, db: Database, volume: &Volume) -> Outcome<()> {
        volume.faults().keep_power();
        let report = db.open_report();
        let torn = report.cut.is_some();
        self.say(format_args!(
            "starts at r{}, replayed {}, torn {torn}",
            report.revision, report.replayed
        ));
        if let Some(why) = &report.rebuilt {
            return Err(format!("the index was rebuilt: {why}"));
        }
        self.book.count(|tally| tally.torn += u64::from(torn));
        check::start(&self.book, &db)?;
        let mut inside = self.inside();
        inside.turn += 1;
        inside.troubled = false;
        inside.ailing = false;
        inside.db = Some(db);
        Ok(())
    }

    /// Records the operations on the disk. Returns whether it has power.
    fn note_disk(&self) -> bool {
        let mut inside = self.inside();
        let volume = inside.volume.clone();
        let events = volume.tape().take();
        self.book.count(|tally| tally.disk_calls += events.len() as u64);
        let tree = volume.tree();
        for event in &events {
            inside.platter.apply(event);
            if let Some(line) = disk_line(&tree, event) {
                self.trace.line(self.simulation.now_us(), "disk", format_args!("{line}"));
            }
        }
        volume.faults().has_power()
    }

    /// Runs the feed consumer to the end of the feed.
    pub fn follow(self: &Arc<Server>) {
        let mut follower = std::mem::take(&mut self.inside().follower);
        let followed = self.attend("follow the feed", |db| follower.follow(db));
        self.say(format_args!("  followed to r{}", follower.reached()));
        self.book.is_certain(follower.reached());
        let wrong = follower.take_wrong();
        self.inside().follower = follower;
        if let Some(wrong) = wrong {
            self.book.wrong(wrong);
        }
        match followed {
            Err(error) if !matches!(error.code(), Code::UnknownOutcome | Code::Io) => {
                self.book.wrong(format!("the feed: {error}"));
            }
            // Without power or without a server it continues later.
            _ => {}
        }
    }

    /// Opens a feed of the messages to a session.
    pub fn watch(&self, session: &str) -> Result<Feed> {
        let db = self.inside().db.clone().ok_or_else(away)?;
        let contract = Some(mainstay::Contract::Sessions);
        let key = Some(session.to_owned());
        db.watch(Filter { contract, key, ..Filter::default() }, db.revision())
    }

    /// Handles a power failure that a reader noticed.
    pub fn notice_power(self: &Arc<Server>) {
        let is_off = {
            let inside = self.inside();
            inside.db.is_some() && !inside.volume.faults().has_power()
        };
        if is_off {
            self.book.count(|tally| tally.inside += 1);
            self.fall("while somebody reads");
        }
    }

    /// Registers a waker to wake after the next event.
    pub fn listen(&self, waker: Waker) {
        self.inside().listening.push(waker);
    }

    /// Ends all faults.
    pub fn become_calm(&self) {
        let mut inside = self.inside();
        inside.calm = true;
        inside.volume.faults().clear_plan();
        inside.volume.faults().keep_power();
        inside.troubled = false;
    }

    /// Returns whether the server runs, and if `letters` is set, whether no message is pending.
    pub fn has_settled(&self, letters: bool) -> bool {
        let Some(db) = self.inside().db.clone() else { return false };
        let stats = db.stats();
        !stats.read_only && (!letters || stats.sessions.pending == 0)
    }

    /// Checks the state of the database.
    pub fn look(self: &Arc<Server>, look: impl FnOnce(&Database) -> Outcome<()>) -> Outcome<()> {
        // Only durable revisions are shown in the feed, so everything is synced first.
        self.attend("sync", Database::sync).map_err(|error| format!("the end: {error}"))?;
        self.follow();
        self.book.check_sound()?;
        let db = self.inside().db.clone().ok_or("the server does not run")?;
        look(&db)?;
        self.inside().follower.check(&self.book)?;
        self.note_disk();
        Ok(())
    }

    /// Ends the server.
    pub fn close(&self) {
        self.stop();
    }
}

fn away() -> Error {
    Error::new(Code::Io, "nobody is there")
}

/// Segments and buffers so small that segment rolls, flushes and trims happen all the time.
fn options(simulation: &Simulation, volume: &Volume) -> Options {
    Options::new()
        .background(false)
        .clock(simulation.clock().clone())
        .files(Arc::new(LogFiles::on(volume)))
        .retention_all()
        .record_retention(None)
        .keyed_retention(None)
        .segment_bytes(8 << 10)
        .write_buffer_bytes(64 << 10)
        .cache_bytes(64 << 10)
        .block_cache_bytes(1 << 20)
        .feed_retention(Duration::from_secs(1), 16 << 10)
}

/// Creates a directory in memory if such a file system exists, else in the temporary directory.
fn home() -> std::io::Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let within: PathBuf = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("mainstay-world-").tempdir_in(within)
}

/// Creates an empty database with an id from the seed, because a random id would change every byte of
/// the log.
fn give_identity(directory: &Path, id: u64) -> std::io::Result<()> {
    let mut header = b"MAINSTAY".to_vec();
    header.extend(1_u32.to_le_bytes());
    header.extend(u128::from(id).to_le_bytes());
    header.extend(crc32c::crc32c(&header).to_le_bytes());
    std::fs::create_dir(directory)?;
    std::fs::write(directory.join("DATABASE"), header)
}

/// Returns the operation that a transaction executes, if any.
fn operation_of(transaction: &Transaction) -> Option<u64> {
    match &transaction.steps.first()?.command {
        Command::Cell(CellCommand::Incr { name, .. }) => {
            name.as_str().strip_prefix("op/")?.parse().ok()
        }
        _ => None,
    }
}

/// Describes a transaction briefly.
fn describe(transaction: &Transaction) -> String {
    let request = transaction.session().map(|request| {
        format!("{} #{} >={} ", request.session, request.request_id, request.lowest_pending)
    });
    let what = match (operation_of(transaction), transaction.steps.first()) {
        (Some(id), _) => format!("op{id}"),
        (None, Some(step)) => format!("{:?}", step.command),
        (None, None) => "nothing".to_owned(),
    };
    format!("{}{what}", request.unwrap_or_default())
}

/// Lists files with their lengths and a hash of each.
fn left(image: &Image) -> String {
    let file = |(path, bytes): (&PathBuf, &Vec<u8>)| {
        format!("{} {} {}", path.display(), bytes.len(), short(bytes))
    };
    image.files().map(file).collect::<Vec<_>>().join(", ")
}

/// Describes a disk operation in one line.
fn disk_line(tree: &Tree, event: &Event) -> Option<String> {
    let path = |ino: u64| tree.path(ino).display().to_string();
    Some(match event {
        Event::Make { name, .. } => format!("make {name}"),
        Event::Write { ino, offset, bytes } => {
            format!("write {} @{offset} +{} {}", path(*ino), bytes.len(), short(bytes))
        }
        Event::Resize { ino, len } => format!("resize {} to {len}", path(*ino)),
        Event::Rename { from, to } => format!("rename {} to {}", from.1, to.1),
        Event::Link { name, .. } => format!("link {name}"),
        Event::Remove { name, .. } => format!("remove {name}"),
        Event::Sync { ino } => format!("sync {}", path(*ino)),
        Event::Dropped { ino } => format!("sync of {} failed, its pages are dropped", path(*ino)),
        Event::Note(_) => return None,
    })
}

//! Test fixture: runs in memory with a manual clock, and an in-memory store.

use crate::store::FaultyStore;
use mainstay::{
    CanonicalEvent, Database, Durability, ManualClock, NewEvent, Options, RunInfo, Runs, Value,
};
use mainstay_runs::archive::{Archive, ArchiveSettings, ArchiveStore};
use std::sync::Arc;
use std::time::Duration;

pub const DAY_MS: u64 = 86_400_000;
/// 2026-11-15, noon.
const START_US: u64 = 1_794_744_000_000_000;

pub struct World {
    pub clock: Arc<ManualClock>,
    pub db: Database,
    pub store: Arc<FaultyStore>,
    pub archive: Archive,
}

/// The parts of a run that an archive must preserve.
#[derive(Debug, PartialEq)]
pub struct RunContent {
    events: Vec<CanonicalEvent>,
    hash: String,
    info: RunInfo,
}

impl World {
    pub fn new() -> World {
        World::with(ArchiveSettings { older_than_ms: DAY_MS, ..ArchiveSettings::default() })
    }

    pub fn with(settings: ArchiveSettings) -> World {
        let clock = ManualClock::new(START_US);
        let options = Options::new().durability(Durability::Memory).clock(clock.clone());
        let db = options.sweep_interval(None).memory().unwrap();
        let store = Arc::new(FaultyStore::default());
        let archive = Archive::new(&db, ArchiveStore::of(store.clone()), settings).unwrap();
        World { clock, db, store, archive }
    }

    pub fn runs(&self) -> Runs {
        self.db.runs()
    }

    pub fn pass_ms(&self, ms: u64) {
        // The database rejects clock jumps of more than an hour, so advance in steps.
        for _ in 0..ms / 3_000_000 {
            self.clock.advance(Duration::from_millis(3_000_000));
            self.db.now_us().unwrap();
        }
        self.clock.advance(Duration::from_millis(ms % 3_000_000));
    }

    /// Creates a finished run.
    pub fn ended(&self, run: &str) {
        for kind in ["RunStarted", "RunCompleted"] {
            self.runs().append(NewEvent::new(run, kind).plan("1")).unwrap();
        }
    }

    pub fn whole(&self, run: &str) -> Option<RunContent> {
        let info = self.runs().get(run).unwrap()?;
        // The time of the write in this database is not archived.
        let info = RunInfo { updated: 0, revision: 0, ..info };
        let events = self.runs().fetch(run, 0, 100_000).unwrap();
        let snapshot = self.runs().snapshot(run).unwrap().unwrap();
        assert_eq!(snapshot.hash(), self.runs().project(run).unwrap().unwrap().hash());
        Some(RunContent { events, hash: snapshot.hash(), info })
    }

    /// Imports an archived run.
    pub fn import(&self, run: &str) -> mainstay::Result<u64> {
        let archived = self.archive.find(run).unwrap().expect("the archive has it");
        self.archive.import(&archived).map(|imported| imported.written)
    }
}

/// A value with everything that JSON cannot represent.
pub fn difficult() -> Value {
    let deep = (0..120).fold(Value::Bytes(vec![0, 255]), |inner, _| Value::Array(vec![inner]));
    let fields = [
        ("$bytes", Value::from("no bytes")),
        ("nan", Value::Float(f64::NAN)),
        ("whole", Value::Float(3.0)),
        ("zero", Value::Float(-0.0)),
        ("large", Value::Int(i64::MIN)),
        ("line", Value::from("a\nb\u{2028}\"")),
        ("deep", deep),
    ];
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

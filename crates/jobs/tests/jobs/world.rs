//! Test fixture: jobs in an in-memory database with a manual clock.

use mainstay::{Code, Database, Durability, ManualClock, Options, Result};
use mainstay_jobs::{ClaimedJob, JobName, Jobs, Settings, State, Submission};
use std::sync::Arc;
use std::time::Duration;

pub const START_MS: u64 = 1_700_000_000_000;

pub struct World {
    pub clock: Arc<ManualClock>,
    pub db: Database,
    pub jobs: Jobs,
}

impl World {
    pub fn new() -> World {
        World::with(Settings::default())
    }

    pub fn with(settings: Settings) -> World {
        let clock = ManualClock::new(START_MS * 1000);
        let options = Options::new().durability(Durability::Memory).clock(clock.clone());
        let db = options.sweep_interval(None).memory().unwrap();
        let jobs = Jobs::open(&db, settings).unwrap();
        db.fill_indexes().unwrap();
        World { clock, db, jobs }
    }

    pub fn pass_ms(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }

    pub fn submit(&self, id: &str) {
        assert_eq!(self.jobs.submit(&job(id)).unwrap(), State::Pending);
    }

    pub fn claim(&self) -> Option<ClaimedJob> {
        self.jobs.claim("t", "w", None).unwrap()
    }

    /// Claims a job that must exist.
    pub fn claimed(&self) -> ClaimedJob {
        self.claim().expect("a job to claim")
    }

    pub fn next_id(&self) -> Option<String> {
        self.claim().map(|claimed| claimed.grant.name.id().to_owned())
    }

    pub fn state(&self, id: &str) -> State {
        self.jobs.get(&name(id)).unwrap().expect("the job").state
    }
}

pub fn job(id: &str) -> Submission {
    Submission::new("t", id)
}

pub fn name(id: &str) -> JobName {
    JobName::new("t", id).unwrap()
}

pub fn code<T: std::fmt::Debug>(result: Result<T>) -> Code {
    result.expect_err("an error").code()
}

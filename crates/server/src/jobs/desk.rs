//! The service for jobs and locks that all front ends share.
//!
//! ```text
//!   Order --> alone:                  AsyncJobs, AsyncLocks --> tickets of the database
//!         --> in a transaction:       JobsTx, LocksTx --> steps of the transaction
//! ```
//!
//! The jobs are opened on first use, so a database without jobs is not changed.

use super::keys::Keys;
use super::order::{Claim, Given, New, Order, Outcome};
use super::settings::Settings;
use mainstay::{At, Database, InteractiveTransaction, MAIN, Result};
use mainstay_jobs::{AsyncJobs, JobStats, Jobs, LockHolder, State, Submission};
use object_store::ObjectStore;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Jobs and locks of a database.
pub struct Desk {
    db: Database,
    settings: Settings,
    keys: Keys,
    hidden: Arc<[String]>,
    objects: Option<Arc<dyn ObjectStore>>,
    opened: Mutex<Option<Jobs>>,
    failed_sweeps: AtomicU64,
}

impl Desk {
    /// Creates the service. Fails if the directory for large input and output cannot be used.
    pub fn new(db: Database, settings: Settings) -> Result<Arc<Desk>> {
        let objects = settings.objects()?;
        Ok(Arc::new(Desk::over(db, settings, objects)))
    }

    /// Creates the service with default settings and no directory for large input and output.
    pub fn plain(db: Database) -> Arc<Desk> {
        Arc::new(Desk::over(db, Settings::default(), None))
    }

    fn over(db: Database, settings: Settings, objects: Option<Arc<dyn ObjectStore>>) -> Desk {
        let keys = Keys::new(&settings.namespace);
        let hidden = if settings.shown_as_keys { vec![] } else { vec![keys.jobs(), keys.locks()] };
        Desk {
            db,
            settings,
            keys,
            hidden: hidden.into(),
            objects,
            opened: Mutex::default(),
            failed_sweeps: AtomicU64::new(0),
        }
    }

    /// Returns the key prefixes that are hidden from Redis clients.
    pub fn hidden_keys(&self) -> Arc<[String]> {
        self.hidden.clone()
    }

    /// Returns the key layout of jobs and locks.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the metrics of jobs since the start.
    pub fn figures(&self) -> JobStats {
        self.opened.lock().as_ref().map(Jobs::stats).unwrap_or_default()
    }

    /// Returns the number of periodic sweeps that failed.
    pub fn failed_sweeps(&self) -> u64 {
        self.failed_sweeps.load(Ordering::Relaxed)
    }

    pub(super) fn note_failed_sweep(&self) {
        self.failed_sweeps.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the jobs of `main`, and opens them if necessary.
    fn jobs(&self) -> Result<Jobs> {
        let mut opened = self.opened.lock();
        if let Some(jobs) = &*opened {
            return Ok(jobs.clone());
        }
        let settings = self.settings.of_jobs();
        let jobs = match &self.objects {
            Some(objects) => Jobs::open_with(&self.db, settings, objects.clone())?,
            None => Jobs::open(&self.db, settings)?,
        };
        Ok(opened.insert(jobs).clone())
    }

    /// Opens the jobs if necessary.
    pub fn ready(&self) -> Result<()> {
        self.jobs().map(drop)
    }

    /// Returns the jobs of a branch for writing.
    pub fn on(&self, branch: &str) -> Result<Jobs> {
        self.jobs()?.on_branch(branch)
    }

    /// Returns the jobs of a branch for reading; `None` if the database never had a job.
    pub fn look(&self, branch: &str) -> Result<Option<Jobs>> {
        if self.opened.lock().is_some() || self.has_jobs()? {
            self.on(branch).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Returns the branches whose jobs are claimed and swept.
    pub(super) fn served_branches(&self) -> Result<Vec<String>> {
        if self.settings.serve_branches {
            Ok(self.db.try_branches()?.into_iter().map(|branch| branch.name).collect())
        } else {
            Ok(vec![MAIN.to_owned()])
        }
    }

    /// Returns whether the database has jobs, which it has once they were opened.
    fn has_jobs(&self) -> Result<bool> {
        let prefix = self.keys.jobs();
        Ok(self.db.records().indexes()?.iter().any(|index| index.prefix == prefix))
    }

    /// Returns the number of jobs of a type on a branch, optionally only those in one state.
    pub fn count(&self, branch: &str, of: &str, state: Option<State>, at: At) -> Result<u64> {
        match (state, self.look(branch)?) {
            (_, None) => Ok(0),
            (Some(state), Some(jobs)) => jobs.count_at(of, state, at),
            (None, Some(_)) => {
                let records = self.db.branch(branch)?.records();
                records.at(at)?.count(&self.keys.of_type(of), &[])
            }
        }
    }

    /// Returns the holder of a lock on a branch.
    pub fn holder(&self, branch: &str, lock: &str) -> Result<Option<LockHolder>> {
        self.look(branch)?.map_or(Ok(None), |jobs| jobs.locks().holder(lock))
    }

    /// Executes a request on a branch.
    pub async fn run(&self, branch: &str, order: Order) -> Result<Outcome> {
        let jobs = self.on(branch)?.to_async()?;
        Ok(match order {
            Order::Submit(new) => Outcome::States(jobs.submit_all(&submissions(new)).await?),
            Order::Claim(claim) => Outcome::Claimed(claimed(&jobs, claim).await?),
            Order::Beat(grant, lease) => Outcome::Held(jobs.heartbeat(&grant, lease).await?),
            Order::Step(grant, step, of) => Outcome::Held(jobs.step(&grant, step, of).await?),
            Order::Done(grant, result) => {
                Outcome::State(jobs.complete(&grant, result.as_deref()).await?)
            }
            Order::Fail(grant, message, retry) => {
                Outcome::State(jobs.fail(&grant, &message, retry).await?)
            }
            Order::Cancel(name) => Outcome::State(jobs.cancel(&name).await?),
            Order::Retry(name) => Outcome::State(jobs.retry(&name).await?),
            Order::Take(lock, owner, lease) => {
                Outcome::Taken(jobs.locks().take(&lock, &owner, lease).await?)
            }
            Order::Renew(lock, token, lease) => {
                renewed(jobs.locks().renew(&lock, token, lease).await?)
            }
            Order::Free(lock, token) => Outcome::Freed(jobs.locks().free(&lock, token).await?),
        })
    }

    /// Executes a request inside a transaction, on its branch. It never waits.
    pub fn run_in(&self, open: &mut InteractiveTransaction, order: Order) -> Result<Outcome> {
        let jobs = self.jobs()?;
        Ok(match order {
            Order::Submit(new) => Outcome::States(jobs.on(open).submit_all(&submissions(new))?),
            Order::Claim(claim) => claimed_in(&jobs, open, &claim)?,
            Order::Beat(grant, lease) => Outcome::Held(jobs.on(open).heartbeat(&grant, lease)?),
            Order::Step(grant, step, of) => Outcome::Held(jobs.on(open).step(&grant, step, of)?),
            Order::Done(grant, result) => {
                Outcome::State(jobs.on(open).complete(&grant, result.as_deref())?)
            }
            Order::Fail(grant, message, retry) => {
                Outcome::State(jobs.on(open).fail(&grant, &message, retry)?)
            }
            Order::Cancel(name) => Outcome::State(jobs.on(open).cancel(&name)?),
            Order::Retry(name) => Outcome::State(jobs.on(open).retry(&name)?),
            Order::Take(lock, owner, lease) => {
                let token = jobs.locks().on(open).take(&lock, &owner, lease)?;
                token.map_or(Outcome::Taken(None), Outcome::TakenIn)
            }
            Order::Renew(lock, token, lease) => {
                renewed(jobs.locks().on(open).renew(&lock, token, lease)?)
            }
            Order::Free(lock, token) => Outcome::Freed(jobs.locks().on(open).free(&lock, token)?),
        })
    }
}

fn submissions(new: Vec<New>) -> Vec<Submission> {
    new.into_iter().map(|new| new.submission).collect()
}

fn renewed(_: ()) -> Outcome {
    Outcome::Renewed
}

/// Claims the next job and reads its input.
async fn claimed(jobs: &AsyncJobs, claim: Claim) -> Result<Option<Box<Given>>> {
    let Claim { task_type, worker, lease, wait } = claim;
    let claimed = match wait.filter(|wait| !wait.is_zero()) {
        Some(wait) => jobs.claim_within(&task_type, &worker, lease, wait).await?,
        None => jobs.claim(&task_type, &worker, lease).await?,
    };
    let Some(claimed) = claimed else { return Ok(None) };
    let data = jobs.params(&claimed.job).await?;
    Ok(Some(Box::new((claimed, data))))
}

fn claimed_in(jobs: &Jobs, open: &mut InteractiveTransaction, claim: &Claim) -> Result<Outcome> {
    let claimed = jobs.on(open).claim(&claim.task_type, &claim.worker, claim.lease)?;
    let Some(claimed) = claimed else { return Ok(Outcome::Claimed(None)) };
    let data = jobs.params(&claimed.job)?;
    Ok(Outcome::ClaimedIn(Box::new((claimed, data))))
}

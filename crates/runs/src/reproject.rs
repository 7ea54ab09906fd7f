//! All runs anew, for a reducer of a new version: in the background, with progress, and to be taken up again.
//!
//! ```text
//!   list --run after run--> Reduced::refresh --> keeper
//!                               |
//!                           Progress { after, runs done, events done }   kept by whoever wants to go on later
//! ```

use crate::reduced::Reduced;
use mainstay_model::limits::PAGE_DEFAULT;
use mainstay_model::{ErrorKind, Result, RunFilter, RunPage};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// The most runs that failed of which it is said why.
const FAILURES_LIMIT: usize = 100;

/// How far all runs are projected anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Progress {
    /// The last run that is done; the next one is behind it.
    pub after: Option<String>,
    /// Runs that are done, those that failed too.
    pub runs_done: u64,
    /// Runs that there were when it began.
    pub runs_total: u64,
    /// Events that were folded.
    pub events_done: u64,
    /// Runs that failed.
    pub runs_failed: u64,
    /// Why: of the first of them.
    pub failures: Vec<Failure>,
    /// Whether all is done.
    pub done: bool,
}

/// A run that could not be projected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The run.
    pub run_id: String,
    /// What went wrong.
    pub message: String,
}

/// Projects all runs of a store anew. It is shared as it is: one drives it, others read its progress.
pub struct Reprojection {
    reduced: Reduced,
    progress: Mutex<Progress>,
}

impl Reprojection {
    /// Begins with the first run.
    pub fn new(reduced: Reduced) -> Reprojection {
        Reprojection::resume(reduced, Progress::default())
    }

    /// Goes on where another ended. A run that was interrupted goes on from its state that was kept last.
    pub fn resume(reduced: Reduced, progress: Progress) -> Reprojection {
        Reprojection { reduced, progress: Mutex::new(progress) }
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.progress.lock().clone()
    }

    /// Goes on to the end. What fails for one run is in the progress; an error is about the store, and it can be
    /// driven again.
    pub async fn run(&self) -> Result<Progress> {
        if self.progress.lock().runs_total == 0 {
            let total = self.count().await?;
            self.progress.lock().runs_total = total;
        }
        while self.step().await? {}
        Ok(self.progress())
    }

    /// Projects the runs of one page; says whether there are more.
    pub async fn step(&self) -> Result<bool> {
        let after = self.progress.lock().after.clone();
        let page = self.page(after.as_deref()).await?;
        for info in &page.runs {
            self.project(&info.run_id).await?;
        }
        self.progress.lock().done = page.next.is_none();
        Ok(page.next.is_some())
    }

    async fn project(&self, run: &str) -> Result<()> {
        let refreshed = self.reduced.refresh(run).await;
        let mut progress = self.progress.lock();
        match refreshed {
            Ok(events) => progress.events_done += events,
            // What a run or its reducer is to blame for does not hold up the others.
            Err(error) if error.kind() == ErrorKind::Invalid => {
                progress.fail(run, error.to_string());
            }
            Err(error) => return Err(error),
        }
        progress.runs_done += 1;
        progress.after = Some(run.to_owned());
        Ok(())
    }

    async fn count(&self) -> Result<u64> {
        let (mut count, mut after) = (0, None);
        loop {
            let page = self.page(after.as_deref()).await?;
            count += page.runs.len() as u64;
            after = page.next;
            if after.is_none() {
                return Ok(count);
            }
        }
    }

    async fn page(&self, after: Option<&str>) -> Result<RunPage> {
        self.reduced.store().list(&RunFilter::default(), after, PAGE_DEFAULT).await
    }
}

impl Progress {
    fn fail(&mut self, run: &str, message: String) {
        self.runs_failed += 1;
        if self.failures.len() < FAILURES_LIMIT {
            self.failures.push(Failure { run_id: run.to_owned(), message });
        }
    }
}

//! Reprojection of all runs for a new reducer version: in the background, with resumable progress.
//!
//! ```text
//!   list --run after run--> ReducerView::refresh --> state store
//!                               |
//!                           Progress { after, runs done, events done }   stored by the caller to resume later
//! ```

use super::reducer_view::ReducerView;
use mainstay_model::limits::PAGE_DEFAULT;
use mainstay_model::{ErrorKind, Result, RunFilter, RunPage};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// The most failures whose messages are recorded.
const FAILURES_LIMIT: usize = 100;

/// The progress of a reprojection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Progress {
    /// The cursor: the last processed run.
    pub after: Option<String>,
    /// The number of processed runs, including failed ones.
    pub runs_done: u64,
    /// The number of runs when it began.
    pub runs_total: u64,
    /// The number of events folded.
    pub events_done: u64,
    /// The number of failed runs.
    pub runs_failed: u64,
    /// The errors of the first failed runs.
    pub failures: Vec<Failure>,
    /// True if all runs are processed.
    pub done: bool,
}

/// A run that could not be projected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The run.
    pub run_id: String,
    /// The error message.
    pub message: String,
}

/// Reprojects all runs of a store. It can be shared: one task runs it while others read the progress.
pub struct Reprojection {
    view: ReducerView,
    progress: Mutex<Progress>,
}

impl Reprojection {
    /// Starts with the first run.
    pub fn new(view: ReducerView) -> Reprojection {
        Reprojection::resume(view, Progress::default())
    }

    /// Continues from a stored progress. An interrupted run continues from its last stored state.
    pub fn resume(view: ReducerView, progress: Progress) -> Reprojection {
        Reprojection { view, progress: Mutex::new(progress) }
    }

    /// The progress so far.
    pub fn progress(&self) -> Progress {
        self.progress.lock().clone()
    }

    /// Runs to the end. Errors of single runs are recorded in the progress. An `Err` is about the store, and
    /// the call can be repeated.
    pub async fn run(&self) -> Result<Progress> {
        if self.progress.lock().runs_total == 0 {
            let total = self.count().await?;
            self.progress.lock().runs_total = total;
        }
        while self.step().await? {}
        Ok(self.progress())
    }

    /// Processes one page of runs. Returns whether more remain.
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
        let result = self.view.refresh(run).await;
        let mut progress = self.progress.lock();
        match result {
            Ok(events) => progress.events_done += events,
            // An error caused by a run or its reducer does not stop the others.
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
        let mut count = 0;
        let mut after = None;
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
        self.view.store().list(&RunFilter::default(), after, PAGE_DEFAULT).await
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

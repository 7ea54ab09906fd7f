//! The sweeper of a server: a thread that takes jobs away from silent workers, and says so.

use super::desk::Desk;
use mainstay::Result;
use mainstay_jobs::SweepReport;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A thread that sweeps from time to time, on the branches that are served. Dropping it ends it.
pub struct Sweeping {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Bell {
    stopped: Mutex<bool>,
    stop: Condvar,
}

impl Sweeping {
    /// Sweeps as often as the settings say; nothing where they say never.
    pub fn start(desk: &Arc<Desk>) -> std::io::Result<Option<Sweeping>> {
        let Some(every_ms) = desk.settings().sweep_interval_ms else { return Ok(None) };
        let (bell, desk, every) =
            (Arc::new(Bell::default()), desk.clone(), Duration::from_millis(every_ms));
        let own = bell.clone();
        let run = move || {
            let mut failing = false;
            while own.pause(every) {
                failing = tell(desk.sweep_by_itself(), failing);
            }
        };
        let thread =
            std::thread::Builder::new().name("mainstay-job-sweep".to_owned()).spawn(run)?;
        Ok(Some(Sweeping { bell, thread: Some(thread) }))
    }
}

impl Bell {
    /// Waits; says whether to go on.
    fn pause(&self, every: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped {
            self.stop.wait_for(&mut stopped, every);
        }
        !*stopped
    }
}

impl Drop for Sweeping {
    fn drop(&mut self) {
        *self.bell.stopped.lock() = true;
        self.bell.stop.notify_all();
        // A panic there has been told on its own thread.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Tells of a sweep that did something, and of the first that failed; says whether this one did.
fn tell(swept: Result<SweepReport>, failing: bool) -> bool {
    match &swept {
        Ok(report) if *report == SweepReport::default() => {}
        Ok(report) => {
            let SweepReport { looked_at, retried, failed, moved_on, unreadable } = report;
            tracing::info!(looked_at, retried, failed, moved_on, unreadable, "jobs were swept");
        }
        Err(_) if failing => {}
        Err(error) => tracing::warn!(%error, "jobs could not be swept"),
    }
    swept.is_err()
}

impl Desk {
    /// Sweeps the branches that are served, if there ever was a job.
    fn sweep_by_itself(&self) -> Result<SweepReport> {
        let swept = self.served_branches().and_then(|branches| {
            let mut report = SweepReport::default();
            for branch in branches {
                if let Some(jobs) = self.look(&branch)? {
                    report += jobs.sweep()?;
                }
            }
            Ok(report)
        });
        if swept.is_err() {
            self.note_failed_sweep();
        }
        swept
    }
}

//! Rewinds a run on a branch to an earlier event.
//!
//! ```text
//!   main     1 2 3 4 | 5 6 7     events 5 to 7 came in one transaction
//!   fork     1 2 3 4 | 5 6 7     forked where event 5 came: has all of them
//!   rewound  1 2 3 4 | 5         a new generation of the run, with the events up to 5
//! ```
//!
//! A rewind is a delete and a restore, both on the branch, so other branches are not affected. Both begin in the same
//! transaction, so that a merge can tell a run that is being rewound from a deleted one.

use super::Runs;
use mainstay_model::limits::PAGE_DEFAULT;
use mainstay_model::{Answer, At, Code, Error, MAIN, PageSize, Result, RunInfo};

impl Runs {
    /// Truncates a run on a branch after event `seq`, so that the next append follows that event. Returns
    /// the number of events that the branch lost. Other branches and the history of this one keep them.
    ///
    /// Uses one transaction if the events fit into one, and several otherwise. Until it is done, the run is
    /// not visible on the branch, and only merges with `Ours` are allowed. If it is interrupted, delete the
    /// branch and fork again. Fails with `InvalidArgument` on `main`, and if the run has no event `seq`.
    ///
    /// ```
    /// use mainstay::{At, Database, NewEvent};
    /// let db = Database::memory()?;
    /// let note = |key: &str| NewEvent::new("r", "Noted").with_key(key);
    /// db.runs().append_batch(vec![note("a"), note("b"), note("c")])?;
    /// db.fork("again", "main", At::Latest)?;
    /// let again = db.branch("again")?.runs();
    /// assert_eq!(again.rewind("r", 1)?, 2);
    /// assert_eq!(again.append(note("c"))?.run_seq, 2);
    /// assert_eq!(db.runs().fetch("r", 0, 9)?.len(), 3);
    /// # Ok::<(), mainstay::Error>(())
    /// ```
    pub fn rewind(&self, run: &str, seq: u64) -> Result<u64> {
        if self.branch == MAIN {
            let message = "`main` is not rewound: fork it, and rewind the run there";
            return Err(Error::new(Code::InvalidArgument, message));
        }
        let before = self.at(At::Latest)?;
        let info = before.get(run)?.ok_or_else(|| unknown(run))?;
        check(&info, seq)?;
        if seq == info.last_event_seq {
            return Ok(0);
        }
        let restoring = self.restoring(run, info.metadata, Some(info.created))?;
        let mut restoring = restoring.replacing(before.revision());
        let mut after = 0;
        let mut size = PageSize::upto(PAGE_DEFAULT);
        while after < seq {
            let left = usize::try_from(seq - after).unwrap_or(usize::MAX);
            // A page that fits into an answer may be too large for a transaction. Then the page size
            // shrinks.
            after += size.ask(|limit| {
                let page = before.fetch(run, after, limit.min(left))?;
                if page.is_empty() {
                    return Err(Answer::mismatch());
                }
                let count = page.len();
                restoring.piece(page, count == left)?;
                Ok(count as u64)
            })?;
        }
        Ok(info.last_event_seq - seq)
    }
}

fn check(info: &RunInfo, seq: u64) -> Result<()> {
    let run = &info.run_id;
    let last_seq = info.last_event_seq;
    if (1..=last_seq).contains(&seq) {
        return Ok(());
    }
    let message =
        format!("run `{run}` has no event {seq} to go on from: its events are 1 to {last_seq}");
    Err(Error::new(Code::InvalidArgument, message))
}

#[cold]
fn unknown(run: &str) -> Error {
    Error::new(Code::RunNotFound, format!("there is no run `{run}` on this branch"))
}

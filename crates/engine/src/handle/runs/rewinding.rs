//! Going on from an earlier event of a run, on a branch.
//!
//! ```text
//!   main     1 2 3 4 | 5 6 7     5 to 7 came in one transaction
//!   fork     1 2 3 4 | 5 6 7     forked where event 5 came: all of them are there
//!   rewound  1 2 3 4 | 5         another life of the run, with the events up to 5
//! ```
//!
//! It is a deletion and a restoring, both on the branch: other branches are not touched. They begin in one transaction, so that
//! a merge can tell a run that is being rewound from one that was deleted.

use super::Runs;
use mainstay_model::limits::PAGE_DEFAULT;
use mainstay_model::{Answer, At, Code, Error, MAIN, PageSize, Result, RunInfo};

impl Runs {
    /// Makes a run of a branch end with one of its events, so that what is appended next follows that one; gives how
    /// many events the branch has no more. Other branches, and the past of this one, keep them. What fits into one transaction is
    /// done in one; until it is done there is no such run on the branch, and the branch is not merged, but with `Ours`. Should it be
    /// broken off, delete the branch and fork again. `main` is not rewound.
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
        let (mut after, mut size) = (0, PageSize::upto(PAGE_DEFAULT));
        while after < seq {
            let left = usize::try_from(seq - after).unwrap_or(usize::MAX);
            // What fits into an answer may be too large for a transaction: then fewer are asked for, too.
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
    let (run, last_seq) = (&info.run_id, info.last_event_seq);
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

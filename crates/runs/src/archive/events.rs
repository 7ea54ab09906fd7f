//! Paged iterator over a run's events, and the running totals of an archive file.

use super::line::{self, Foot, Head};
use super::name::hex;
use mainstay::{
    CanonicalEvent, PageSize, Result, RunSnapshot, RunsAt, Stamp, reduce, reduce_parts,
};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;

/// The page size, unless the events are too large for it.
const PAGE: usize = 256;

/// Iterates over the events of a run as of one point in time, in order.
pub(super) struct Events<'v> {
    view: &'v RunsAt,
    run: &'v str,
    after: u64,
    page: VecDeque<CanonicalEvent>,
    size: PageSize,
}

impl<'v> Events<'v> {
    pub fn of(view: &'v RunsAt, run: &'v str) -> Events<'v> {
        Events { view, run, after: 0, page: VecDeque::new(), size: PageSize::upto(PAGE) }
    }

    fn fetch(&mut self) -> Result<()> {
        let page = self.size.ask(|limit| self.view.fetch(self.run, self.after, limit));
        self.page = page?.into();
        Ok(())
    }
}

impl Iterator for Events<'_> {
    type Item = Result<CanonicalEvent>;

    fn next(&mut self) -> Option<Result<CanonicalEvent>> {
        if self.page.is_empty()
            && let Err(error) = self.fetch()
        {
            return Some(Err(error));
        }
        let event = self.page.pop_front()?;
        self.after = event.run_seq;
        Some(Ok(event))
    }
}

/// The running count, hash and snapshot of a file's lines.
pub(super) struct Sum {
    hash: Sha256,
    count: u64,
    pub snapshot: RunSnapshot,
    /// The snapshot by the old reducer that ignored attempts. Files of old versions contain its hash.
    without_attempts: RunSnapshot,
    /// The storage time of the last event.
    pub last_stored: Option<Stamp>,
}

impl Sum {
    /// Starts with the first line of a file.
    pub fn behind(run: &str, head: &str) -> Sum {
        let hash = Sha256::new().chain_update(head);
        let snapshot = RunSnapshot::new(run);
        let without_attempts = snapshot.clone();
        Sum { hash, count: 0, snapshot, without_attempts, last_stored: None }
    }

    /// Computes the totals of a run in the database.
    pub fn of(head: &Head, events: Events<'_>) -> Result<Sum> {
        let mut sum = Sum::behind(&head.run_id, &line::plain(head)?);
        for event in events {
            let event = event?;
            sum.add_event(&event);
            sum.add_line(&line::event(event)?);
        }
        Ok(sum)
    }

    pub fn add_event(&mut self, event: &CanonicalEvent) {
        reduce(&mut self.snapshot, event);
        let CanonicalEvent { run_seq, event_type, step_id, .. } = event;
        let step = step_id.as_deref();
        reduce_parts(&mut self.without_attempts, *run_seq, event_type, step, None);
        self.count += 1;
        self.last_stored = event.persisted_at.as_ref().map(|at| at.stamp_us());
    }

    pub fn add_line(&mut self, line: &str) {
        self.hash.update(line);
    }

    /// Returns whether `foot` is the correct last line for these lines, written by this version or an earlier
    /// one.
    pub fn is_of(&self, foot: &Foot) -> bool {
        let expected = self.foot();
        let earlier = || self.without_attempts.hash() == foot.snapshot_hash;
        (&foot.count, &foot.sha256) == (&expected.count, &expected.sha256)
            && (foot.snapshot_hash == expected.snapshot_hash || earlier())
    }

    pub fn foot(&self) -> Foot {
        let sha256 = hex(&self.hash.clone().finalize());
        Foot { count: self.count, sha256, snapshot_hash: self.snapshot.hash() }
    }
}

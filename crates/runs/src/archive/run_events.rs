//! Paged iterator over a run's events, and the running totals of an archive file.

use super::line::{self, Footer, Header};
use super::name::hex;
use mainstay::{
    CanonicalEvent, PageSize, Result, RunSnapshot, RunsAt, Stamp, reduce, reduce_parts,
};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;

/// The page size, unless the events are too large for it.
const PAGE: usize = 256;

/// Iterates over the events of a run as of one point in time, in order.
pub(super) struct RunEvents<'v> {
    view: &'v RunsAt,
    run: &'v str,
    after: u64,
    page: VecDeque<CanonicalEvent>,
    size: PageSize,
}

impl<'v> RunEvents<'v> {
    pub fn of(view: &'v RunsAt, run: &'v str) -> RunEvents<'v> {
        RunEvents { view, run, after: 0, page: VecDeque::new(), size: PageSize::upto(PAGE) }
    }

    fn fetch(&mut self) -> Result<()> {
        let page = self.size.ask(|limit| self.view.fetch(self.run, self.after, limit));
        self.page = page?.into();
        Ok(())
    }
}

impl Iterator for RunEvents<'_> {
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
pub(super) struct RunDigest {
    hash: Sha256,
    count: u64,
    pub snapshot: RunSnapshot,
    /// The snapshot by the old reducer that ignored attempts. Files of old versions contain its hash.
    without_attempts: RunSnapshot,
    /// The storage time of the last event.
    pub last_stored: Option<Stamp>,
}

impl RunDigest {
    /// Starts with the first line of a file.
    pub fn new(run: &str, header: &str) -> RunDigest {
        let hash = Sha256::new().chain_update(header);
        let snapshot = RunSnapshot::new(run);
        let without_attempts = snapshot.clone();
        RunDigest { hash, count: 0, snapshot, without_attempts, last_stored: None }
    }

    /// Computes the totals of a run in the database.
    pub fn of(header: &Header, events: RunEvents<'_>) -> Result<RunDigest> {
        let mut digest = RunDigest::new(&header.run_id, &line::encode_line(header)?);
        for event in events {
            let event = event?;
            digest.add_event(&event);
            digest.add_line(&line::encode_event(event)?);
        }
        Ok(digest)
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

    /// Returns whether `footer` is the correct last line for these lines, written by this version or an earlier
    /// one.
    pub fn matches_footer(&self, footer: &Footer) -> bool {
        let expected = self.footer();
        let matches_earlier = || self.without_attempts.hash() == footer.snapshot_hash;
        (&footer.count, &footer.sha256) == (&expected.count, &expected.sha256)
            && (footer.snapshot_hash == expected.snapshot_hash || matches_earlier())
    }

    pub fn footer(&self) -> Footer {
        let sha256 = hex(&self.hash.clone().finalize());
        Footer { count: self.count, sha256, snapshot_hash: self.snapshot.hash() }
    }
}

//! Claiming: hands the next job of a type to a worker, with a lease and a fencing token.
//!
//! ```text
//!   waiting jobs that are due        --> ready, by their priority
//!   index (task_type, state, rank)   --> the first ready one --> claimed, token = this revision
//! ```
//!
//! A claim is one transaction, unless a job has just become due or the job has a lease of its own.

use crate::bell::{Look, Outlook, Question, Tried};
use crate::failure;
use crate::job::{Job, field};
use crate::name::{self, JobName};
use crate::operations::{NOW, Operations, below, equal, in_ms, must, not_below};
use crate::port::Port;
use crate::rank;
use crate::settings;
use crate::state::State;
use crate::wait;
use mainstay::{
    Answer, Code, Error, ErrorKind, Field, FieldValue, Record, RecordPage, RecordPick, RecordWrite,
    Result, Revision, Stamp, Step, Where,
};
use std::sync::Arc;
use std::time::Duration;

/// Number of due jobs made ready in one transaction.
const DUE_TOGETHER: usize = 100;
/// Maximum number of due jobs made ready inside an open transaction, whose read set is limited to 10,000.
const DUE_LIMIT_WITHIN: usize = 1000;
/// Minimum page size when scanning inherited records.
const LOOK_PAGE: usize = 100;
/// Number of waiting jobs scanned to find the earliest.
const EARLIEST_LIMIT: usize = 1000;
/// Maximum page size when counting claimable jobs.
const LOOK_LIMIT: usize = 1000;
/// Delay before a try that got nothing, although a job looked claimable, is repeated without a new write.
const AGAIN_US: u64 = 100_000;
/// First window in which the earliest waiting job is searched, in milliseconds. A search costs as much as
/// its range holds.
const WINDOW_MS: u64 = 1000;
/// Growth factor of that window.
const WINDOW_GROWTH: u64 = 64;

/// The right to work on a job. Every write of its holder is fenced by its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The name of the job.
    pub name: JobName,
    /// The fencing token: the revision of the claim. Every later grant of any job has a higher one.
    pub token: Revision,
}

/// A claimed job.
#[derive(Clone, Debug, PartialEq)]
pub struct Claimed {
    /// The right to work on it.
    pub grant: Grant,
    /// The job at the time of the claim.
    pub job: Job,
}

impl Operations<'_> {
    /// Inside an open transaction the token is 0, because the revision is unknown before the commit.
    pub async fn claim(
        &self,
        task_type: &str,
        worker: &str,
        lease: Option<Duration>,
    ) -> Result<Option<Claimed>> {
        name::check_type(task_type)?;
        name::check_present("a worker", worker)?;
        self.check_served()?;
        let lease_ms = lease.map(checked_ms).transpose()?;
        let default_ms = self.settings().timeout_ms(task_type);
        self.free_due(task_type).await?;
        let pick = self.pick(task_type, worker, lease_ms, default_ms)?;
        let mut picking = self.clone();
        while let Some((key, record, token)) = picking.picked(&pick).await? {
            match self.read(&key, record) {
                Ok(job) => {
                    let grant = Grant { name: job.name.clone(), token };
                    self.tally().add(|figures| figures.claimed += 1);
                    return self.own_lease(Claimed { grant, job }, default_ms).await.map(Some);
                }
                Err(error) => self.give_up(&key, token, &error).await?,
            }
            // The commands beside a claim were executed with the first pick.
            picking = self.beside([]);
        }
        self.tally().add(|figures| figures.claimed_nothing += 1);
        Ok(None)
    }

    /// Executes a pick. Returns the record that it took and its token.
    async fn picked(&self, pick: &RecordPick) -> Result<Option<(String, Record, Revision)>> {
        let receipt = match self.execute(vec![must(pick.clone())]).await {
            Err(error) if error.code() == Code::MustFailed => return Ok(None),
            other => other?,
        };
        let Some(Answer::Picked(Some(picked))) = receipt.answers.into_iter().next() else {
            return Err(failure::unexpected());
        };
        let (key, record) = *picked;
        Ok(Some((key, record, receipt.revision)))
    }

    /// Fails a picked record that is not a readable job, so that it is not picked again.
    async fn give_up(&self, key: &str, token: Revision, why: &Error) -> Result<()> {
        let write = self.failed_as_unreadable(key, why)?;
        let write = if self.port.is_within() {
            // Inside the transaction no other worker can have the job, and its token is not known yet.
            write
        } else {
            write.when_field(field::TOKEN, token.to_string())?
        };
        self.beside([]).execute(vec![write.into()]).await.map(drop)
    }

    pub async fn claim_within(
        &self,
        task_type: &str,
        worker: &str,
        lease: Option<Duration>,
        timeout: Duration,
    ) -> Result<Option<Claimed>> {
        let until = wait::end_of(self.now_us().await?, timeout);
        let mut turn = None;
        loop {
            let revision = self.port.revision().await?;
            let claimed = self.claim(task_type, worker, lease).await?;
            let tried = Tried { revision, at: self.now_us().await? };
            if claimed.is_some() || tried.at >= until {
                return Ok(claimed);
            }
            let is_called = match &self.shared.bell {
                Some(bell) => {
                    let queue = || Ok((self.queue_of(task_type), self.look_for(task_type)?));
                    // The old turn ends only now. Then the next waiter may be called for the remaining
                    // jobs.
                    turn = bell.turn(turn, tried, until, queue).await?;
                    turn.is_some()
                }
                None => self.wait_for_one(task_type, tried, until).await?,
            };
            if !is_called {
                return Ok(None);
            }
        }
    }

    /// The wait queue of a job type; see `Queues::written`.
    fn queue_of(&self, task_type: &str) -> String {
        format!("{} {}", self.port.branch(), self.type_prefix(task_type))
    }

    /// Returns the look with which the bell checks for claimable jobs of a type.
    fn look_for(&self, task_type: &str) -> Result<Look> {
        let db = self.port.database().ok_or_else(failure::unexpected)?;
        let own = Port::blocking(db, self.port.branch())?;
        let task_type = task_type.to_owned();
        let own = self.by(own);
        Ok(Arc::new(move |question| mainstay::remote::wait(own.outlook(&task_type, question))))
    }

    /// Counts how many of the waiters could claim now, and finds the next due time.
    async fn outlook(&self, task_type: &str, question: Question) -> Result<Outlook> {
        let asked = question.asked;
        let past = waiting(task_type, 0, (question.now / 1000).saturating_add(1))?;
        let mut ready = 0;
        for filters in [ready_now(task_type)?, past] {
            ready += self.readable(task_type, &filters, asked - ready).await?;
        }
        // If enough jobs are ready for all waiters, the next due time does not matter.
        let due = if ready < asked { self.earliest(task_type, question).await? } else { None };
        Ok(Outlook { ready, due })
    }

    /// Counts up to `upto` jobs that pass the filters. Records that are not readable jobs do not count,
    /// because no worker can claim them.
    async fn readable(&self, task_type: &str, filters: &[Where], upto: usize) -> Result<usize> {
        let forked_at = self.port.fork_revision().await?;
        // Inherited records are skipped page by page.
        let least = if forked_at == 0 { 1 } else { LOOK_PAGE };
        let prefix = self.type_prefix(task_type);
        let mut count = 0;
        let mut after = None;
        while count < upto {
            let limit = (upto - count).clamp(least, LOOK_LIMIT);
            let page = self.fitting(&prefix, filters, after.as_deref(), limit).await?;
            let own = page.records.into_iter().filter(|(_, one)| Port::is_own(one, forked_at));
            count += own.filter(|(key, record)| self.read(key, record.clone()).is_ok()).count();
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(count.min(upto))
    }

    /// Reads a page of at most `limit` records, or fewer if they are too large for one answer.
    pub(crate) async fn fitting(
        &self,
        prefix: &str,
        filters: &[Where],
        after: Option<&str>,
        mut limit: usize,
    ) -> Result<RecordPage> {
        loop {
            match self.port.scan(prefix, filters, after, limit).await {
                Err(error) if error.kind() == ErrorKind::TooLarge && limit > 1 => limit /= 2,
                other => return other,
            }
        }
    }

    /// Waits until a job looks claimable. Returns false after the deadline. Used for served databases,
    /// where every write wakes all waiters.
    async fn wait_for_one(&self, task_type: &str, tried: Tried, until: Stamp) -> Result<bool> {
        let again_at = tried.at.saturating_add(AGAIN_US);
        loop {
            let seen = self.port.revision().await?;
            let now = self.now_us().await?;
            if now >= until {
                return Ok(false);
            }
            // `called` is 0: this look only reads.
            let question = Question { now, asked: 1, called: 0, until, due: None };
            let outlook = self.outlook(task_type, question).await?;
            let is_ready = outlook.ready > 0;
            if is_ready && (seen > tried.revision || now >= again_at) {
                return Ok(true);
            }
            let next = if is_ready { Some(again_at) } else { outlook.due };
            self.port.wait_for_change(seen, now, next.unwrap_or(until).min(until)).await?;
        }
    }

    /// Makes due jobs ready, in order of their time. Runs in its own transaction, because the claim usually
    /// finds none to make ready.
    async fn free_due(&self, task_type: &str) -> Result<()> {
        let due = waiting(task_type, 0, (self.now_us().await? / 1000).saturating_add(1))?;
        let prefix = self.type_prefix(task_type);
        if self.readable(task_type, &due, 1).await? == 0 {
            return Ok(());
        }
        let ready_rank = FieldValue::Copy { of: Field::new(field::READY_RANK)? };
        let pick = RecordPick::under(&prefix, due)
            .by(field::RANK)?
            .set(field::RANK, ready_rank)?
            .clear(field::READY_RANK)?
            .own();
        // An open transaction keeps each of them in its read set.
        let limit = if self.port.is_within() { DUE_LIMIT_WITHIN } else { usize::MAX };
        self.pick_all(&pick, limit).await
    }

    /// Picks until none is left or `limit` is reached, as many per transaction as fit.
    async fn pick_all(&self, pick: &RecordPick, limit: usize) -> Result<()> {
        let mut together = DUE_TOGETHER;
        let mut picked = 0;
        while picked < limit {
            let steps = vec![Step::from(pick.clone()); together];
            // The commands beside a claim belong to the claim.
            match self.beside([]).execute(steps).await {
                Err(error) if error.kind() == ErrorKind::TooLarge && together > 1 => together /= 2,
                Err(error) => return Err(error),
                Ok(receipt) if receipt.answers.iter().all(Answer::took_effect) => {
                    picked += together
                }
                Ok(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Builds the pick that claims the first ready job.
    fn pick(
        &self,
        task_type: &str,
        worker: &str,
        lease_ms: Option<u64>,
        default_ms: u64,
    ) -> Result<RecordPick> {
        let pick = RecordPick::under(&self.type_prefix(task_type), ready_now(task_type)?)
            .by(field::RANK)?
            .set(field::STATE, State::Claimed.as_str())?
            .set(field::WORKER, worker)?
            .set(field::UPDATED_AT, NOW)?
            .set(field::TIMEOUT_AT, in_ms(lease_ms.unwrap_or(default_ms)))?
            .set(field::TOKEN, FieldValue::Revision)?
            // Inherited jobs are claimed on the branch that they come from.
            .own();
        match lease_ms {
            Some(lease_ms) => pick.set(field::LEASE_MS, lease_ms.to_string()),
            None => pick.clear(field::LEASE_MS),
        }
    }

    /// Applies the job's own lease, which is known only after the pick.
    async fn own_lease(&self, mut claimed: Claimed, given_ms: u64) -> Result<Claimed> {
        let own_ms = claimed.job.lease_ms.unwrap_or(given_ms);
        if claimed.job.fields.get(field::LEASE_MS).is_some() || own_ms == given_ms {
            return Ok(claimed);
        }
        // The commands beside a claim were executed with the claim.
        let alone = self.beside([]);
        let extended = if self.port.is_within() {
            // Inside the transaction no other worker can have the job, and its token is not known yet.

            let write = RecordWrite::to(&self.key(&claimed.grant.name))?;
            alone.execute(vec![write.set(field::TIMEOUT_AT, in_ms(own_ms))?.into()]).await.map(drop)
        } else {
            alone.extend(&claimed.grant, None).await.map(drop)
        };
        match extended {
            // It was cancelled meanwhile. Its worker is fenced at its next write.
            Err(error) if error.code() == Code::Fenced => return Ok(claimed),
            other => other?,
        }
        claimed.job = self.get(&claimed.grant.name).await?.unwrap_or(claimed.job);
        Ok(claimed)
    }

    /// Finds the due time of the earliest future job, if any waiter waits that long. A due time found
    /// before stays valid unless an earlier job has come.
    async fn earliest(&self, task_type: &str, question: Question) -> Result<Option<Stamp>> {
        let now_ms = question.now / 1000;
        let known = question.due.filter(|due| *due > question.now);
        let end_ms = known.unwrap_or(question.until.saturating_add(1000)) / 1000;
        let mut from_ms = now_ms.saturating_add(1);
        let mut ahead_ms = WINDOW_MS;
        while from_ms < end_ms {
            let before_ms = now_ms.saturating_add(ahead_ms).min(end_ms);
            if let Some(first_ms) = self.first_between(task_type, from_ms, before_ms).await? {
                return Ok(Some(first_ms.saturating_mul(1000)));
            }
            from_ms = before_ms;
            ahead_ms = ahead_ms.saturating_mul(WINDOW_GROWTH);
        }
        Ok(known)
    }

    async fn first_between(&self, task_type: &str, from: u64, before: u64) -> Result<Option<u64>> {
        let prefix = self.type_prefix(task_type);
        let mut before = before;
        let mut first = None;
        loop {
            let filters = waiting(task_type, from, before)?;
            let page = self.fitting(&prefix, &filters, None, EARLIEST_LIMIT).await?;
            let run_at = |(_, record): &(String, Record)| {
                record.fields.text(field::RUN_AT).and_then(|text| text.parse::<u64>().ok())
            };
            first = page.records.iter().filter_map(run_at).min().or(first);
            match first {
                // The page was cut off, so an earlier job may follow.
                Some(first) if page.next.is_some() && first > from => before = first,
                first => return Ok(first),
            }
        }
    }
}

/// Pending jobs that are ready.
fn ready_now(task_type: &str) -> Result<Vec<Where>> {
    Ok(vec![
        equal(field::TASK_TYPE, task_type)?,
        equal(field::STATE, State::Pending.as_str())?,
        below(field::RANK, &rank::first_waiting())?,
    ])
}

/// Pending jobs that wait for a time in this range.
fn waiting(task_type: &str, from_ms: u64, before_ms: u64) -> Result<Vec<Where>> {
    Ok(vec![
        equal(field::TASK_TYPE, task_type)?,
        equal(field::STATE, State::Pending.as_str())?,
        not_below(field::RANK, &rank::waiting(from_ms))?,
        below(field::RANK, &rank::waiting(before_ms))?,
    ])
}

/// Converts a lease to milliseconds and checks its range.
pub(crate) fn checked_ms(lease: Duration) -> Result<u64> {
    settings::duration_ms(lease, "lease")
}

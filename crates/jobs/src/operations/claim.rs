//! Claiming: hands the next job of a type to a worker, with a lease and a fencing token.
//!
//! ```text
//!   waiting jobs that are due        --> ready, by their priority
//!   index (task_type, state, rank)   --> the first ready one --> claimed, token = this revision
//! ```
//!
//! A claim is one transaction, unless a job has just become due or the job has a lease of its own.

use crate::backend::JobsBackend;
use crate::dispatch::deadline;
use crate::dispatch::wait_queue::{Availability, FailedAttempt, Probe, ProbeFn};
use crate::failure;
use crate::model::job::{Job, field};
use crate::model::name::{self, JobName};
use crate::model::sort_key;
use crate::model::state::State;
use crate::operations::{NOW, Operations, below, equal, in_ms, must, not_below};
use crate::settings;
use mainstay::{
    Answer, Code, Error, ErrorKind, Field, FieldValue, Record, RecordPage, RecordPick, RecordWrite,
    Result, Revision, Stamp, Step, Where,
};
use std::sync::Arc;
use std::time::Duration;

/// Number of due jobs made ready in one transaction.
const DUE_BATCH_SIZE: usize = 100;
/// Maximum number of due jobs made ready inside an open transaction, whose read set is limited to 10,000.
const DUE_LIMIT_IN_TRANSACTION: usize = 1000;
/// Minimum page size when scanning inherited records.
const MIN_PAGE_SIZE: usize = 100;
/// Number of waiting jobs scanned to find the earliest.
const EARLIEST_PAGE_SIZE: usize = 1000;
/// Maximum page size when counting claimable jobs.
const MAX_PAGE_SIZE: usize = 1000;
/// Delay before a try that got nothing, although a job looked claimable, is repeated without a new write.
const RETRY_DELAY_US: u64 = 100_000;
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
pub struct ClaimedJob {
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
    ) -> Result<Option<ClaimedJob>> {
        name::check_type(task_type)?;
        name::check_not_empty("a worker", worker)?;
        self.check_served()?;
        let lease_ms = lease.map(lease_ms_of).transpose()?;
        let default_ms = self.settings().timeout_ms(task_type);
        self.make_due_ready(task_type).await?;
        let pick = self.build_pick(task_type, worker, lease_ms, default_ms)?;
        let mut operations = self.clone();
        while let Some((key, record, token)) = operations.run_pick(&pick).await? {
            match self.decode(&key, record) {
                Ok(job) => {
                    let grant = Grant { name: job.name.clone(), token };
                    self.counters().add(|stats| stats.claimed += 1);
                    return self
                        .apply_own_lease(ClaimedJob { grant, job }, default_ms)
                        .await
                        .map(Some);
                }
                Err(error) => self.fail_unreadable(&key, token, &error).await?,
            }
            // The extra commands of a claim were executed with the first pick.
            operations = self.with_commands([]);
        }
        self.counters().add(|stats| stats.claimed_nothing += 1);
        Ok(None)
    }

    /// Executes a pick. Returns the record that it took and its token.
    async fn run_pick(&self, pick: &RecordPick) -> Result<Option<(String, Record, Revision)>> {
        let receipt = match self.execute(vec![must(pick.clone())]).await {
            Err(error) if error.code() == Code::MustFailed => return Ok(None),
            other => other?,
        };
        let Some(Answer::Picked(Some(record))) = receipt.answers.into_iter().next() else {
            return Err(failure::unexpected());
        };
        let (key, record) = *record;
        Ok(Some((key, record, receipt.revision)))
    }

    /// Fails a picked record that is not a readable job, so that it is not picked again.
    async fn fail_unreadable(&self, key: &str, token: Revision, why: &Error) -> Result<()> {
        let write = self.failed_as_unreadable(key, why)?;
        let write = if self.backend.is_in_transaction() {
            // Inside the transaction no other worker can have the job, and its token is not known yet.
            write
        } else {
            write.when_field(field::TOKEN, token.to_string())?
        };
        self.with_commands([]).execute(vec![write.into()]).await.map(drop)
    }

    pub async fn claim_within(
        &self,
        task_type: &str,
        worker: &str,
        lease: Option<Duration>,
        timeout: Duration,
    ) -> Result<Option<ClaimedJob>> {
        let deadline = deadline::after(self.now_us().await?, timeout);
        let mut turn = None;
        loop {
            let revision = self.backend.revision().await?;
            let claimed = self.claim(task_type, worker, lease).await?;
            let attempt = FailedAttempt { revision, at: self.now_us().await? };
            if claimed.is_some() || attempt.at >= deadline {
                return Ok(claimed);
            }
            let has_turn = match &self.shared.dispatcher {
                Some(dispatcher) => {
                    let queue = || Ok((self.job_queue(task_type), self.job_probe(task_type)?));
                    // The old turn ends only now. Then the next waiter may get a turn for the remaining
                    // jobs.
                    turn = dispatcher.wait_for_turn(turn, attempt, deadline, queue).await?;
                    turn.is_some()
                }
                None => self.wait_for_job(task_type, attempt, deadline).await?,
            };
            if !has_turn {
                return Ok(None);
            }
        }
    }

    /// The wait queue of a job type; see `WaitQueues::mark_written`.
    fn job_queue(&self, task_type: &str) -> String {
        format!("{} {}", self.backend.branch(), self.type_prefix(task_type))
    }

    /// Returns the probe with which the dispatcher checks for claimable jobs of a type.
    fn job_probe(&self, task_type: &str) -> Result<ProbeFn> {
        let db = self.backend.database().ok_or_else(failure::unexpected)?;
        let backend = JobsBackend::blocking(db, self.backend.branch())?;
        let task_type = task_type.to_owned();
        let operations = self.with_backend(backend);
        Ok(Arc::new(move |probe| {
            mainstay::remote::wait(operations.job_availability(&task_type, probe))
        }))
    }

    /// Counts how many of the waiters could claim now, and finds the next due time.
    async fn job_availability(&self, task_type: &str, probe: Probe) -> Result<Availability> {
        let waiters = probe.waiters;
        let overdue = due_between(task_type, 0, (probe.now / 1000).saturating_add(1))?;
        let mut ready = 0;
        for filters in [ready_jobs(task_type)?, overdue] {
            ready += self.count_readable(task_type, &filters, waiters - ready).await?;
        }
        // If enough jobs are ready for all waiters, the next due time does not matter.
        let next_due =
            if ready < waiters { self.earliest_due(task_type, probe).await? } else { None };
        Ok(Availability { ready, next_due })
    }

    /// Counts up to `limit` jobs that pass the filters. Records that are not readable jobs do not count,
    /// because no worker can claim them.
    async fn count_readable(
        &self,
        task_type: &str,
        filters: &[Where],
        limit: usize,
    ) -> Result<usize> {
        let fork_revision = self.backend.fork_revision().await?;
        // Inherited records are skipped page by page.
        let min_size = if fork_revision == 0 { 1 } else { MIN_PAGE_SIZE };
        let prefix = self.type_prefix(task_type);
        let mut count = 0;
        let mut after = None;
        while count < limit {
            let page_size = (limit - count).clamp(min_size, MAX_PAGE_SIZE);
            let page = self.scan_fitting(&prefix, filters, after.as_deref(), page_size).await?;
            let own = page
                .records
                .into_iter()
                .filter(|(_, record)| JobsBackend::is_own(record, fork_revision));
            count += own.filter(|(key, record)| self.decode(key, record.clone()).is_ok()).count();
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(count.min(limit))
    }

    /// Reads a page of at most `limit` records, or fewer if they are too large for one answer.
    pub(crate) async fn scan_fitting(
        &self,
        prefix: &str,
        filters: &[Where],
        after: Option<&str>,
        mut limit: usize,
    ) -> Result<RecordPage> {
        loop {
            match self.backend.scan(prefix, filters, after, limit).await {
                Err(error) if error.kind() == ErrorKind::TooLarge && limit > 1 => limit /= 2,
                other => return other,
            }
        }
    }

    /// Waits until a job looks claimable. Returns false after the deadline. Used for served databases,
    /// where every write wakes all waiters.
    async fn wait_for_job(
        &self,
        task_type: &str,
        attempt: FailedAttempt,
        deadline: Stamp,
    ) -> Result<bool> {
        let retry_at = attempt.at.saturating_add(RETRY_DELAY_US);
        loop {
            let visible = self.backend.revision().await?;
            let now = self.now_us().await?;
            if now >= deadline {
                return Ok(false);
            }
            // `with_turn` is 0: this probe only reads.
            let probe =
                Probe { now, waiters: 1, with_turn: 0, latest_deadline: deadline, next_due: None };
            let availability = self.job_availability(task_type, probe).await?;
            let is_ready = availability.ready > 0;
            if is_ready && (visible > attempt.revision || now >= retry_at) {
                return Ok(true);
            }
            let next = if is_ready { Some(retry_at) } else { availability.next_due };
            self.backend
                .wait_for_change(visible, now, next.unwrap_or(deadline).min(deadline))
                .await?;
        }
    }

    /// Makes due jobs ready, in order of their time. Runs in its own transaction, because the claim usually
    /// finds none to make ready.
    async fn make_due_ready(&self, task_type: &str) -> Result<()> {
        let due_filters =
            due_between(task_type, 0, (self.now_us().await? / 1000).saturating_add(1))?;
        let prefix = self.type_prefix(task_type);
        if self.count_readable(task_type, &due_filters, 1).await? == 0 {
            return Ok(());
        }
        let ready_rank = FieldValue::Copy { of: Field::new(field::READY_RANK)? };
        let pick = RecordPick::under(&prefix, due_filters)
            .by(field::RANK)?
            .set(field::RANK, ready_rank)?
            .clear(field::READY_RANK)?
            .own();
        // An open transaction keeps each of them in its read set.
        let limit =
            if self.backend.is_in_transaction() { DUE_LIMIT_IN_TRANSACTION } else { usize::MAX };
        self.pick_all(&pick, limit).await
    }

    /// Picks until none is left or `limit` is reached, as many per transaction as fit.
    async fn pick_all(&self, pick: &RecordPick, limit: usize) -> Result<()> {
        let mut batch_size = DUE_BATCH_SIZE;
        let mut count = 0;
        while count < limit {
            let steps = vec![Step::from(pick.clone()); batch_size];
            // The extra commands of a claim belong to the claim.
            match self.with_commands([]).execute(steps).await {
                Err(error) if error.kind() == ErrorKind::TooLarge && batch_size > 1 => {
                    batch_size /= 2
                }
                Err(error) => return Err(error),
                Ok(receipt) if receipt.answers.iter().all(Answer::took_effect) => {
                    count += batch_size
                }
                Ok(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Builds the pick that claims the first ready job.
    fn build_pick(
        &self,
        task_type: &str,
        worker: &str,
        lease_ms: Option<u64>,
        default_ms: u64,
    ) -> Result<RecordPick> {
        let pick = RecordPick::under(&self.type_prefix(task_type), ready_jobs(task_type)?)
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
    async fn apply_own_lease(
        &self,
        mut claimed: ClaimedJob,
        granted_ms: u64,
    ) -> Result<ClaimedJob> {
        let own_ms = claimed.job.lease_ms.unwrap_or(granted_ms);
        if claimed.job.fields.get(field::LEASE_MS).is_some() || own_ms == granted_ms {
            return Ok(claimed);
        }
        // The extra commands of a claim were executed with the claim.
        let bare = self.with_commands([]);
        let result = if self.backend.is_in_transaction() {
            // Inside the transaction no other worker can have the job, and its token is not known yet.
            let write = RecordWrite::to(&self.key(&claimed.grant.name))?;
            bare.execute(vec![write.set(field::TIMEOUT_AT, in_ms(own_ms))?.into()]).await.map(drop)
        } else {
            bare.renew_lease(&claimed.grant, None).await.map(drop)
        };
        match result {
            // It was cancelled meanwhile. Its worker is fenced at its next write.
            Err(error) if error.code() == Code::Fenced => return Ok(claimed),
            other => other?,
        }
        claimed.job = self.get(&claimed.grant.name).await?.unwrap_or(claimed.job);
        Ok(claimed)
    }

    /// Finds the due time of the earliest future job, if any waiter waits that long. A due time found
    /// before stays valid unless an earlier job has come.
    async fn earliest_due(&self, task_type: &str, probe: Probe) -> Result<Option<Stamp>> {
        let now_ms = probe.now / 1000;
        let known_due = probe.next_due.filter(|due| *due > probe.now);
        let end_ms = known_due.unwrap_or(probe.latest_deadline.saturating_add(1000)) / 1000;
        let mut from_ms = now_ms.saturating_add(1);
        let mut window_ms = WINDOW_MS;
        while from_ms < end_ms {
            let before_ms = now_ms.saturating_add(window_ms).min(end_ms);
            if let Some(first_ms) = self.first_due_between(task_type, from_ms, before_ms).await? {
                return Ok(Some(first_ms.saturating_mul(1000)));
            }
            from_ms = before_ms;
            window_ms = window_ms.saturating_mul(WINDOW_GROWTH);
        }
        Ok(known_due)
    }

    async fn first_due_between(
        &self,
        task_type: &str,
        from: u64,
        before: u64,
    ) -> Result<Option<u64>> {
        let prefix = self.type_prefix(task_type);
        let mut before = before;
        let mut first = None;
        loop {
            let filters = due_between(task_type, from, before)?;
            let page = self.scan_fitting(&prefix, &filters, None, EARLIEST_PAGE_SIZE).await?;
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
fn ready_jobs(task_type: &str) -> Result<Vec<Where>> {
    Ok(vec![
        equal(field::TASK_TYPE, task_type)?,
        equal(field::STATE, State::Pending.as_str())?,
        below(field::RANK, &sort_key::first_waiting())?,
    ])
}

/// Pending jobs that wait for a time in this range.
fn due_between(task_type: &str, from_ms: u64, before_ms: u64) -> Result<Vec<Where>> {
    Ok(vec![
        equal(field::TASK_TYPE, task_type)?,
        equal(field::STATE, State::Pending.as_str())?,
        not_below(field::RANK, &sort_key::waiting(from_ms))?,
        below(field::RANK, &sort_key::waiting(before_ms))?,
    ])
}

/// Converts a lease to milliseconds and checks its range.
pub(crate) fn lease_ms_of(lease: Duration) -> Result<u64> {
    settings::duration_ms(lease, "lease")
}

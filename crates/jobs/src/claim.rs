//! Claiming: the next job of a type goes to a worker, with a lease and a token.
//!
//! ```text
//!   waiting jobs whose time has come --> ready, by their priority
//!   index (task_type, state, rank)   --> the first that is ready --> claimed, token = this revision
//! ```

use crate::failure;
use crate::job::{Job, field};
use crate::jobs::{Jobs, NOW, below, equal, in_ms, must, not_below};
use crate::name::{self, JobName};
use crate::rank;
use crate::settings::check_duration;
use crate::state::State;
use crate::wait;
use mainstay::{
    Answer, Code, FieldValue, Record, RecordPick, RecordWrite, Result, Revision, Stamp, Step, Where,
};
use std::time::Duration;

/// How many jobs whose time has come one claim makes ready.
const DUE_LIMIT: usize = 100;
/// How many waiting jobs are looked at to find the earliest.
const EARLIEST_LIMIT: usize = 1000;

/// The right to work on a job: whoever has it writes with its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The job.
    pub name: JobName,
    /// The revision that gave it: higher for every later grant of whatever job.
    pub token: Revision,
}

/// A job that was claimed.
#[derive(Clone, Debug, PartialEq)]
pub struct Claimed {
    /// The right to work on it.
    pub grant: Grant,
    /// The job.
    pub job: Job,
}

impl Jobs {
    /// Gives the next job of a type to a worker: of those that are pending and due the one with the highest
    /// priority, of equal ones the oldest. Of any number of callers no two get the same.
    ///
    /// The lease says how long the worker may be silent before the sweeper takes the job away; nothing: what
    /// the job was submitted with.
    pub fn claim(
        &self,
        task_type: &str,
        worker: &str,
        lease: Option<Duration>,
    ) -> Result<Option<Claimed>> {
        name::check_type(task_type)?;
        let lease_ms = lease.map(checked_ms).transpose()?;
        self.free_due(task_type, self.now_us()?)?;
        self.pick(task_type, worker, lease_ms)
    }

    /// As [`Jobs::claim`], and waits for a job for at most so long. It looks when something is written or when
    /// the time of a waiting job has come, and sleeps in between.
    pub fn claim_within(
        &self,
        task_type: &str,
        worker: &str,
        lease: Option<Duration>,
        timeout: Duration,
    ) -> Result<Option<Claimed>> {
        let until = wait::end_of(self.now_us()?, timeout);
        loop {
            let seen = self.database().try_revision()?;
            if let Some(claimed) = self.claim(task_type, worker, lease)? {
                return Ok(Some(claimed));
            }
            if !self.wait_for_one(task_type, seen, until)? {
                return Ok(None);
            }
        }
    }

    /// Waits until a job seems to be there; says no when the time is over.
    fn wait_for_one(&self, task_type: &str, mut seen: Revision, until: Stamp) -> Result<bool> {
        loop {
            let now = self.now_us()?;
            if now >= until {
                return Ok(false);
            }
            let next = self.earliest(task_type, now, until)?;
            wait::for_change(self.database(), seen, now, next.min(until))?;
            seen = self.database().try_revision()?;
            // Only readers are asked: every write to the database wakes all who wait.
            if next <= self.now_us()? || self.is_one_ready(task_type)? {
                return Ok(true);
            }
        }
    }

    /// What is pending and not waiting for its time.
    fn ready(&self, task_type: &str) -> Result<Vec<Where>> {
        Ok(vec![
            equal(field::TASK_TYPE, task_type)?,
            equal(field::STATE, State::Pending.as_str())?,
            below(field::RANK, &rank::first_waiting())?,
        ])
    }

    /// What is pending and waits for a time from this one on and before that one.
    fn waiting(&self, task_type: &str, from_ms: u64, before_ms: u64) -> Result<Vec<Where>> {
        Ok(vec![
            equal(field::TASK_TYPE, task_type)?,
            equal(field::STATE, State::Pending.as_str())?,
            not_below(field::RANK, &rank::waiting(from_ms))?,
            below(field::RANK, &rank::waiting(before_ms))?,
        ])
    }

    fn is_one_ready(&self, task_type: &str) -> Result<bool> {
        let (prefix, filters) = (self.type_prefix(task_type), self.ready(task_type)?);
        Ok(!self.records().scan(&prefix, &filters, None, 1)?.records.is_empty())
    }

    /// Makes waiting jobs ready whose time has come.
    fn free_due(&self, task_type: &str, now: Stamp) -> Result<()> {
        let filters = self.waiting(task_type, 0, (now / 1000).saturating_add(1))?;
        let due = self.records().scan(&self.type_prefix(task_type), &filters, None, DUE_LIMIT)?;
        // A record that is no job must not keep the others from being claimed.
        let due = due.records.into_iter().filter_map(|(key, record)| self.read(&key, record).ok());
        let free = |job: Job| {
            let since_us = job.run_at.unwrap_or_default().saturating_mul(1000);
            let write = RecordWrite::to(&self.key(&job.name))?.when_counter(Some(job.counter));
            Ok(Step::from(write.set(field::RANK, rank::ready(job.priority, since_us))?))
        };
        let steps = due.map(free).collect::<Result<Vec<_>>>()?;
        match steps.is_empty() {
            true => Ok(()),
            // What is done beside a claim belongs to the claim.
            false => self.beside([]).execute(steps).map(drop),
        }
    }

    fn pick(
        &self,
        task_type: &str,
        worker: &str,
        lease_ms: Option<u64>,
    ) -> Result<Option<Claimed>> {
        let default_ms = self.settings().timeout_ms(task_type);
        let pick = RecordPick::under(&self.type_prefix(task_type), self.ready(task_type)?)
            .by(field::RANK)?
            .set(field::STATE, State::Claimed.as_str())?
            .set(field::WORKER, worker)?
            .set(field::UPDATED_AT, NOW)?
            .set(field::TIMEOUT_AT, in_ms(lease_ms.unwrap_or(default_ms)))?
            .set(field::TOKEN, FieldValue::Revision)?;
        let pick = match lease_ms {
            Some(lease_ms) => pick.set(field::LEASE_MS, lease_ms.to_string())?,
            None => pick.clear(field::LEASE_MS)?,
        };
        let receipt = match self.execute(vec![must(pick)]) {
            Err(error) if error.code() == Code::MustFailed => return Ok(None),
            other => other?,
        };
        let Some(Answer::Picked(Some(picked))) = receipt.answers.into_iter().next() else {
            return Err(failure::unexpected());
        };
        let (key, record) = *picked;
        let job = self.read(&key, record)?;
        let grant = Grant { name: job.name.clone(), token: receipt.revision };
        self.own_lease(Claimed { grant, job }, default_ms).map(Some)
    }

    /// Which job it is, and so how long its own lease is, is known only when it has been picked.
    fn own_lease(&self, mut claimed: Claimed, given_ms: u64) -> Result<Claimed> {
        let own_ms = claimed.job.lease_ms.unwrap_or(given_ms);
        if claimed.job.fields.get(field::LEASE_MS).is_none() && own_ms != given_ms {
            match self.beside([]).heartbeat(&claimed.grant, None) {
                // Cancelled already: its worker hears of it when it writes.
                Err(error) if error.code() == Code::Fenced => return Ok(claimed),
                other => other?,
            };
            claimed.job = self.get(&claimed.grant.name)?.unwrap_or(claimed.job);
        }
        Ok(claimed)
    }

    /// When the first waiting job is due, if that is before a moment; else that moment.
    fn earliest(&self, task_type: &str, now: Stamp, until: Stamp) -> Result<Stamp> {
        let prefix = self.type_prefix(task_type);
        let mut end_ms = (until / 1000).saturating_add(1);
        loop {
            let filters = self.waiting(task_type, 0, end_ms)?;
            let page = self.records().scan(&prefix, &filters, None, EARLIEST_LIMIT)?;
            let run_at = |(_, record): &(String, Record)| {
                record.fields.text(field::RUN_AT).and_then(|text| text.parse::<u64>().ok())
            };
            let first_ms = page.records.iter().filter_map(run_at).min();
            let Some(first_ms) = first_ms else {
                return Ok(end_ms.saturating_mul(1000).min(until));
            };
            if page.next.is_none() || first_ms <= now / 1000 {
                return Ok(first_ms.saturating_mul(1000));
            }
            // There are more than were looked at: perhaps earlier ones among them.
            end_ms = first_ms;
        }
    }
}

/// A lease in milliseconds.
pub(crate) fn checked_ms(lease: Duration) -> Result<u64> {
    let ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
    check_duration(ms, "lease").map(|()| ms)
}

//! Claiming: the next job of a type goes to a worker, with a lease and a token.
//!
//! ```text
//!   waiting jobs whose time has come --> ready, by their priority
//!   index (task_type, state, rank)   --> the first that is ready --> claimed, token = this revision
//! ```
//!
//! A claim is one transaction unless a job's time has come or the job has a lease of its own.

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

/// How many jobs whose time has come are made ready in one transaction.
const DUE_TOGETHER: usize = 100;
/// How many of them are in an open transaction, which may read 10,000 keys and ranges in all.
const DUE_LIMIT_WITHIN: usize = 1000;
/// How many records are looked at together at least.
const LOOK_PAGE: usize = 100;
/// How many waiting jobs are looked at to find the earliest.
const EARLIEST_LIMIT: usize = 1000;
/// How many jobs are looked at together to count those that can be claimed.
const LOOK_LIMIT: usize = 1000;
/// When a try that got nothing, though a job seemed to be there, is repeated if nothing is written meanwhile.
const AGAIN_US: u64 = 100_000;
/// How far ahead the earliest is looked for at first, in milliseconds: a search costs what lies in its range.
const WINDOW_MS: u64 = 1000;
/// How many times as far it is looked for then.
const WINDOW_GROWTH: u64 = 64;

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

impl Operations<'_> {
    /// Inside a transaction the token is 0: nobody knows it before the commit.
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
            // What is done beside a claim was done with the first pick.
            picking = self.beside([]);
        }
        self.tally().add(|figures| figures.claimed_nothing += 1);
        Ok(None)
    }

    /// The record that a pick took, and the token that it gave.
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

    /// Fails what was picked and is no job, so that nobody picks it again and the next one is found.
    async fn give_up(&self, key: &str, token: Revision, why: &Error) -> Result<()> {
        let write = self.failed_as_unreadable(key, why)?;
        let write = match self.port.is_within() {
            // Nobody else can have it, and its token is not known.
            true => write,
            false => write.when_field(field::TOKEN, token.to_string())?,
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
                    // Only when it ends the next one may be called for what is left.
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

    /// The queue of those who wait for jobs of a type; see `Queues::written`.
    fn queue_of(&self, task_type: &str) -> String {
        format!("{} {}", self.port.branch(), self.type_prefix(task_type))
    }

    /// How the bell sees whether jobs of a type can be claimed.
    fn look_for(&self, task_type: &str) -> Result<Look> {
        let db = self.port.database().ok_or_else(failure::unexpected)?;
        let (own, task_type) = (Port::blocking(db, self.port.branch())?, task_type.to_owned());
        let own = self.by(own);
        Ok(Arc::new(move |question| mainstay::remote::wait(own.outlook(&task_type, question))))
    }

    /// How many of so many could claim now, and when the next job is due.
    async fn outlook(&self, task_type: &str, question: Question) -> Result<Outlook> {
        let asked = question.asked;
        let past = waiting(task_type, 0, (question.now / 1000).saturating_add(1))?;
        let mut ready = 0;
        for filters in [ready_now(task_type)?, past] {
            ready += self.readable(task_type, &filters, asked - ready).await?;
        }
        // While there is enough for all, what is due later does not matter.
        let due = if ready < asked { self.earliest(task_type, question).await? } else { None };
        Ok(Outlook { ready, due })
    }

    /// How many jobs pass the filters, up to so many. What is no job is claimed by nobody.
    async fn readable(&self, task_type: &str, filters: &[Where], upto: usize) -> Result<usize> {
        let forked_at = self.port.fork_revision().await?;
        // What is inherited is passed over page by page.
        let least = if forked_at == 0 { 1 } else { LOOK_PAGE };
        let (prefix, mut count, mut after) = (self.type_prefix(task_type), 0, None);
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

    /// A page of at most so many records, of fewer where they are too large to be answered together.
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

    /// Waits until a job seems to be there; says no when the time is over. For served databases, where every
    /// write wakes all who wait.
    async fn wait_for_one(&self, task_type: &str, tried: Tried, until: Stamp) -> Result<bool> {
        let again_at = tried.at.saturating_add(AGAIN_US);
        loop {
            let seen = self.port.revision().await?;
            let now = self.now_us().await?;
            if now >= until {
                return Ok(false);
            }
            // Only readers are asked.
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

    /// Makes waiting jobs ready whose time has come, in order of their time. Not in the transaction that claims, which
    /// most often has nothing to make ready.
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
        // An open transaction remembers each of them as read.
        let limit = if self.port.is_within() { DUE_LIMIT_WITHIN } else { usize::MAX };
        self.pick_all(&pick, limit).await
    }

    /// Picks until nothing is left, or so many, with many in one transaction while they fit.
    async fn pick_all(&self, pick: &RecordPick, limit: usize) -> Result<()> {
        let (mut together, mut picked) = (DUE_TOGETHER, 0);
        while picked < limit {
            let steps = vec![Step::from(pick.clone()); together];
            // What is done beside a claim belongs to the claim.
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

    /// What claims the first job that is ready.
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
            // What a branch inherited is claimed where it comes from.
            .own();
        match lease_ms {
            Some(lease_ms) => pick.set(field::LEASE_MS, lease_ms.to_string()),
            None => pick.clear(field::LEASE_MS),
        }
    }

    /// Which job it is, and so how long its own lease is, is known only when it has been picked.
    async fn own_lease(&self, mut claimed: Claimed, given_ms: u64) -> Result<Claimed> {
        let own_ms = claimed.job.lease_ms.unwrap_or(given_ms);
        if claimed.job.fields.get(field::LEASE_MS).is_some() || own_ms == given_ms {
            return Ok(claimed);
        }
        // What is done beside a claim was done with the claim.
        let alone = self.beside([]);
        let extended = match self.port.is_within() {
            // Nobody else can have it, and its token is not known.
            true => {
                let write = RecordWrite::to(&self.key(&claimed.grant.name))?;
                alone
                    .execute(vec![write.set(field::TIMEOUT_AT, in_ms(own_ms))?.into()])
                    .await
                    .map(drop)
            }
            false => alone.extend(&claimed.grant, None).await.map(drop),
        };
        match extended {
            // Cancelled already: its worker hears of it when it writes.
            Err(error) if error.code() == Code::Fenced => return Ok(claimed),
            other => other?,
        }
        claimed.job = self.get(&claimed.grant.name).await?.unwrap_or(claimed.job);
        Ok(claimed)
    }

    /// When the first waiting job is due that is not yet, if anybody waits for so long. What was found before is
    /// right unless an earlier one has come.
    async fn earliest(&self, task_type: &str, question: Question) -> Result<Option<Stamp>> {
        let now_ms = question.now / 1000;
        let known = question.due.filter(|due| *due > question.now);
        let end_ms = known.unwrap_or(question.until.saturating_add(1000)) / 1000;
        let (mut from_ms, mut ahead_ms) = (now_ms.saturating_add(1), WINDOW_MS);
        while from_ms < end_ms {
            let before_ms = now_ms.saturating_add(ahead_ms).min(end_ms);
            if let Some(first_ms) = self.first_between(task_type, from_ms, before_ms).await? {
                return Ok(Some(first_ms.saturating_mul(1000)));
            }
            (from_ms, ahead_ms) = (before_ms, ahead_ms.saturating_mul(WINDOW_GROWTH));
        }
        Ok(known)
    }

    async fn first_between(&self, task_type: &str, from: u64, before: u64) -> Result<Option<u64>> {
        let (prefix, mut before) = (self.type_prefix(task_type), before);
        let mut first = None;
        loop {
            let filters = waiting(task_type, from, before)?;
            let page = self.fitting(&prefix, &filters, None, EARLIEST_LIMIT).await?;
            let run_at = |(_, record): &(String, Record)| {
                record.fields.text(field::RUN_AT).and_then(|text| text.parse::<u64>().ok())
            };
            first = page.records.iter().filter_map(run_at).min().or(first);
            match first {
                // There are more than were looked at, perhaps earlier ones among them.
                Some(first) if page.next.is_some() && first > from => before = first,
                first => return Ok(first),
            }
        }
    }
}

/// What is pending and not waiting for its time.
fn ready_now(task_type: &str) -> Result<Vec<Where>> {
    Ok(vec![
        equal(field::TASK_TYPE, task_type)?,
        equal(field::STATE, State::Pending.as_str())?,
        below(field::RANK, &rank::first_waiting())?,
    ])
}

/// What is pending and waits for a time from this one on and before that one.
fn waiting(task_type: &str, from_ms: u64, before_ms: u64) -> Result<Vec<Where>> {
    Ok(vec![
        equal(field::TASK_TYPE, task_type)?,
        equal(field::STATE, State::Pending.as_str())?,
        not_below(field::RANK, &rank::waiting(from_ms))?,
        below(field::RANK, &rank::waiting(before_ms))?,
    ])
}

/// A lease in milliseconds.
pub(crate) fn checked_ms(lease: Duration) -> Result<u64> {
    settings::duration_ms(lease, "lease")
}

//! Locks: one holder at a time, with a lease and a fencing token.
//!
//! ```text
//!   {namespace}state.locks.{name} -> { owner, token } with a time to live: the lease
//! ```
//!
//! The token is the revision of the grant. So it only increases, also across expiry and deletion, and it
//! can fence the holder's writes elsewhere.

use crate::backend::JobsBackend;
use crate::dispatch::deadline;
use crate::dispatch::wait_queue::{Availability, FailedAttempt, ProbeFn};
use crate::failure;
use crate::model::name::check_not_empty;
use crate::operations::claim::lease_ms_of;
use crate::operations::{NOW, Operations, must};
use mainstay::{
    Answer, Code, Condition, Error, Field, FieldValue, Name, Record, RecordCommand, RecordWrite,
    Result, Revision, Stamp, Ttl,
};
use std::sync::Arc;
use std::time::Duration;

const OWNER: &str = "owner";
const TOKEN: &str = "token";
const RENEWED_AT: &str = "renewed_at";

/// The holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// The owner name that the lock was taken with.
    pub owner: String,
    /// The fencing token.
    pub token: Revision,
    /// End of the lease, in microseconds since 1970.
    pub until: Option<Stamp>,
}

impl Operations<'_> {
    /// The key of a lock's record.
    pub fn lock_key(&self, name: &str) -> String {
        format!("{}state.locks.{name}", self.settings().namespace)
    }

    fn checked_lock_key(&self, name: &str) -> Result<String> {
        check_not_empty("a lock", name).map(|()| self.lock_key(name))
    }

    /// Returns the token, which is 0 if the open transaction itself takes the lock.
    pub async fn take(&self, name: &str, owner: &str, lease: Duration) -> Result<Option<Revision>> {
        check_not_empty("a lock's owner", owner)?;
        let key = self.checked_lock_key(name)?;
        let lease_ms = lease_ms_of(lease)?;
        let write = || {
            let write = RecordWrite::to(&key)?.ttl(Ttl::Millis(lease_ms));
            write.set(RENEWED_AT, NOW)
        };
        let renewal = write()?.when_field(OWNER, owner)?;
        let grant =
            write()?.when_counter(None).set(OWNER, owner)?.set(TOKEN, FieldValue::Revision)?;
        let get = RecordCommand::Get { key: Name::new(&key)?, fields: None };
        let steps = vec![renewal.into(), grant.into(), get.into()];
        let answers = self.execute(steps).await?.answers;
        let [Answer::MaybeCounter(renewed), Answer::MaybeCounter(granted), Answer::Record(record)] =
            &answers[..]
        else {
            return Err(failure::unexpected());
        };
        match record {
            Some(record) if renewed.or(*granted).is_some() => {
                self.counters().add(|stats| stats.locked += u64::from(granted.is_some()));
                decode_holder(record).map(|holder| Some(holder.token))
            }
            _ => Ok(None),
        }
    }

    pub async fn take_within(
        &self,
        name: &str,
        owner: &str,
        lease: Duration,
        timeout: Duration,
    ) -> Result<Option<Revision>> {
        let deadline = deadline::after(self.now_us().await?, timeout);
        let mut turn = None;
        loop {
            let revision = self.backend.revision().await?;
            let token = self.take(name, owner, lease).await?;
            let attempt = FailedAttempt { revision, at: self.now_us().await? };
            if token.is_some() || attempt.at >= deadline {
                return Ok(token);
            }
            match &self.shared.dispatcher {
                Some(dispatcher) => {
                    turn = dispatcher
                        .wait_for_turn(turn, attempt, deadline, || {
                            Ok((self.lock_queue(name)?, self.lock_probe(name)?))
                        })
                        .await?;
                    if turn.is_none() {
                        return Ok(None);
                    }
                }
                None => self.wait_for_lock(name, attempt, deadline).await?,
            }
        }
    }

    /// The wait queue of a lock; see `WaitQueues::mark_written`.
    fn lock_queue(&self, name: &str) -> Result<String> {
        Ok(format!("{} {}", self.backend.branch(), self.checked_lock_key(name)?))
    }

    /// Waits until a lock may be free. Used for served databases.
    async fn wait_for_lock(
        &self,
        name: &str,
        attempt: FailedAttempt,
        deadline: Stamp,
    ) -> Result<()> {
        let FailedAttempt { revision, at } = attempt;
        let availability = self.lock_availability(name, at).await?;
        let next =
            if availability.ready > 0 { at } else { availability.next_due.unwrap_or(deadline) };
        self.backend.wait_for_change(revision, at, next.min(deadline)).await
    }

    /// Returns the probe with which the dispatcher checks whether a lock is free.
    fn lock_probe(&self, name: &str) -> Result<ProbeFn> {
        let db = self.backend.database().ok_or_else(failure::unexpected)?;
        let operations = self.with_backend(JobsBackend::blocking(db, self.backend.branch())?);
        let name = name.to_owned();
        Ok(Arc::new(move |probe| {
            mainstay::remote::wait(operations.lock_availability(&name, probe.now))
        }))
    }

    async fn lock_availability(&self, name: &str, now: Stamp) -> Result<Availability> {
        let holder = self.holder(name).await?;
        // A lease that ends at this very microsecond is examined in the next one.
        let next_due =
            holder.as_ref().and_then(|holder| holder.until).map(|until| until.max(now + 1));
        Ok(Availability { ready: usize::from(holder.is_none()), next_due })
    }

    pub async fn renew(&self, name: &str, token: Revision, lease: Duration) -> Result<()> {
        let lease_ms = lease_ms_of(lease)?;
        let write = RecordWrite::to(&self.checked_lock_key(name)?)?
            .when(fence(name, token)?)
            .set(RENEWED_AT, NOW)?
            .ttl(Ttl::Millis(lease_ms));
        self.counters().count_fenced(self.execute(vec![must(write)]).await.map(drop))
    }

    pub async fn free(&self, name: &str, token: Revision) -> Result<bool> {
        let key = Name::new(&self.checked_lock_key(name)?)?;
        let when = vec![fence(name, token)?];
        match self.execute(vec![must(RecordCommand::Delete { key, when })]).await {
            Ok(_) => Ok(true),
            // The lock was freed before, or its lease expired and another owner may hold it. That holder
            // keeps it.
            Err(error) if error.code() == Code::Fenced => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub async fn holder(&self, name: &str) -> Result<Option<LockHolder>> {
        self.backend
            .get(&self.checked_lock_key(name)?)
            .await?
            .as_ref()
            .map(decode_holder)
            .transpose()
    }
}

fn fence(name: &str, token: Revision) -> Result<Condition> {
    if token == 0 {
        return Err(failure::no_token(&format!("lock `{name}`")));
    }
    Ok(Condition::Fence { field: Field::new(TOKEN)?, is: token.to_string().into_bytes() })
}

pub(crate) fn decode_holder(record: &Record) -> Result<LockHolder> {
    let owner = record.fields.text(OWNER).unwrap_or_default().to_owned();
    let token = record.fields.text(TOKEN).and_then(|text| text.parse().ok());
    let token = token.ok_or_else(|| {
        Error::new(Code::CorruptData, "a lock has no token: delete its record to free it")
    })?;
    Ok(LockHolder { owner, token, until: record.expires })
}

//! Locks: one holder at a time, with a lease and a fencing token.
//!
//! ```text
//!   {namespace}state.locks.{name} -> { owner, token } with a time to live: the lease
//! ```
//!
//! The token is the revision of the grant. So it only increases, also across expiry and deletion, and it
//! can fence the holder's writes elsewhere.

use crate::bell::{Look, Outlook, Tried};
use crate::claim::checked_ms;
use crate::failure;
use crate::name::check_present;
use crate::operations::{NOW, Operations, must};
use crate::port::Port;
use crate::wait;
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

    fn key_of_lock(&self, name: &str) -> Result<String> {
        check_present("a lock", name).map(|()| self.lock_key(name))
    }

    /// Returns the token, which is 0 if the open transaction itself takes the lock.
    pub async fn take(&self, name: &str, owner: &str, lease: Duration) -> Result<Option<Revision>> {
        check_present("a lock's owner", owner)?;
        let key = self.key_of_lock(name)?;
        let lease_ms = checked_ms(lease)?;
        let write = || {
            let write = RecordWrite::to(&key)?.ttl(Ttl::Millis(lease_ms));
            write.set(RENEWED_AT, NOW)
        };
        let again = write()?.when_field(OWNER, owner)?;
        let grant =
            write()?.when_counter(None).set(OWNER, owner)?.set(TOKEN, FieldValue::Revision)?;
        let get = RecordCommand::Get { key: Name::new(&key)?, fields: None };
        let steps = vec![again.into(), grant.into(), get.into()];
        let answers = self.execute(steps).await?.answers;
        let [Answer::MaybeCounter(again), Answer::MaybeCounter(granted), Answer::Record(record)] =
            &answers[..]
        else {
            return Err(failure::unexpected());
        };
        match record {
            Some(record) if again.or(*granted).is_some() => {
                self.tally().add(|figures| figures.locked += u64::from(granted.is_some()));
                holder(record).map(|holder| Some(holder.token))
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
        let until = wait::end_of(self.now_us().await?, timeout);
        let mut turn = None;
        loop {
            let revision = self.port.revision().await?;
            let token = self.take(name, owner, lease).await?;
            let tried = Tried { revision, at: self.now_us().await? };
            if token.is_some() || tried.at >= until {
                return Ok(token);
            }
            match &self.shared.bell {
                Some(bell) => {
                    turn = bell
                        .turn(turn, tried, until, || {
                            Ok((self.lock_queue(name)?, self.look_at(name)?))
                        })
                        .await?;
                    if turn.is_none() {
                        return Ok(None);
                    }
                }
                None => self.wait_for_lock(name, tried, until).await?,
            }
        }
    }

    /// The wait queue of a lock; see `Queues::written`.
    fn lock_queue(&self, name: &str) -> Result<String> {
        Ok(format!("{} {}", self.port.branch(), self.key_of_lock(name)?))
    }

    /// Waits until a lock may be free. Used for served databases.
    async fn wait_for_lock(&self, name: &str, tried: Tried, until: Stamp) -> Result<()> {
        let Tried { revision, at } = tried;
        let outlook = self.lock_outlook(name, at).await?;
        let next = if outlook.ready > 0 { at } else { outlook.due.unwrap_or(until) };
        self.port.wait_for_change(revision, at, next.min(until)).await
    }

    /// Returns the look with which the bell checks whether a lock is free.
    fn look_at(&self, name: &str) -> Result<Look> {
        let db = self.port.database().ok_or_else(failure::unexpected)?;
        let own = self.by(Port::blocking(db, self.port.branch())?);
        let name = name.to_owned();
        Ok(Arc::new(move |question| mainstay::remote::wait(own.lock_outlook(&name, question.now))))
    }

    async fn lock_outlook(&self, name: &str, now: Stamp) -> Result<Outlook> {
        let held = self.holder(name).await?;
        // A lease that ends at this very microsecond is looked at in the next one.
        let due = held.as_ref().and_then(|held| held.until).map(|until| until.max(now + 1));
        Ok(Outlook { ready: usize::from(held.is_none()), due })
    }

    pub async fn renew(&self, name: &str, token: Revision, lease: Duration) -> Result<()> {
        let lease_ms = checked_ms(lease)?;
        let write = RecordWrite::to(&self.key_of_lock(name)?)?
            .when(fence(name, token)?)
            .set(RENEWED_AT, NOW)?
            .ttl(Ttl::Millis(lease_ms));
        self.tally().heard(self.execute(vec![must(write)]).await.map(drop))
    }

    pub async fn free(&self, name: &str, token: Revision) -> Result<bool> {
        let key = Name::new(&self.key_of_lock(name)?)?;
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
        self.port.get(&self.key_of_lock(name)?).await?.as_ref().map(holder).transpose()
    }
}

fn fence(name: &str, token: Revision) -> Result<Condition> {
    if token == 0 {
        return Err(failure::no_token(&format!("lock `{name}`")));
    }
    Ok(Condition::Fence { field: Field::new(TOKEN)?, is: token.to_string().into_bytes() })
}

pub(crate) fn holder(record: &Record) -> Result<LockHolder> {
    let owner = record.fields.text(OWNER).unwrap_or_default().to_owned();
    let token = record.fields.text(TOKEN).and_then(|text| text.parse().ok());
    let token = token.ok_or_else(|| {
        Error::new(Code::CorruptData, "a lock has no token: delete its record to free it")
    })?;
    Ok(LockHolder { owner, token, until: record.expires })
}

//! Locks: one holder at a time, for as long as its lease lasts.
//!
//! ```text
//!   {namespace}state.locks.{name} -> { owner, token } with a time to live: the lease
//! ```
//!
//! The token is the revision of the grant, so it only rises, over expiry and deletion too. Whatever the holder
//! writes elsewhere can be fenced by it.

use crate::claim::checked_ms;
use crate::jobs::NOW;
use crate::wait;
use mainstay::{
    Answer, Code, Condition, Database, Durability, Error, Field, FieldValue, Guard, Name, Record,
    RecordCommand, RecordWrite, Result, Revision, Stamp, Transaction, Ttl,
};
use std::time::Duration;

const OWNER: &str = "owner";
const TOKEN: &str = "token";
const RENEWED_AT: &str = "renewed_at";

/// Locks of a database under one namespace.
///
/// ```
/// use mainstay_jobs::Locks;
/// use std::time::Duration;
/// let locks = Locks::open(&mainstay::Database::memory()?, "mainstay.");
/// let lease = Duration::from_secs(10);
/// let token = locks.take("nightly", "node 1", lease)?.expect("nobody has it");
/// assert_eq!(locks.take("nightly", "node 2", lease)?, None);
/// locks.renew("nightly", token, lease)?;
/// assert!(locks.free("nightly", token)?);
/// assert!(locks.take("nightly", "node 2", lease)?.expect("nobody has it") > token);
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Clone)]
pub struct Locks {
    db: Database,
    namespace: String,
}

/// Who has a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// Its name.
    pub owner: String,
    /// Its token.
    pub token: Revision,
    /// When its lease ends.
    pub until: Option<Stamp>,
}

impl Locks {
    /// The locks of a database whose keys begin with a namespace.
    pub fn open(db: &Database, namespace: &str) -> Locks {
        Locks { db: db.clone(), namespace: namespace.to_owned() }
    }

    /// The key of a lock's record.
    pub fn key(&self, name: &str) -> String {
        format!("{}state.locks.{name}", self.namespace)
    }

    /// Takes a lock; gives its token, or nothing while another owner has it. An owner that has it already, and
    /// maybe lost the reply, gets its token again and a new lease: owners have names of their own.
    pub fn take(&self, name: &str, owner: &str, lease: Duration) -> Result<Option<Revision>> {
        let (key, lease_ms) = (Name::new(&self.key(name))?, checked_ms(lease)?);
        let write = || {
            let write = RecordWrite::to(key.as_str())?.ttl(Ttl::Millis(lease_ms));
            write.set(RENEWED_AT, NOW)
        };
        let grant = write()?.set(OWNER, owner)?.set(TOKEN, FieldValue::Revision)?;
        let again = write()?.when_field(OWNER, owner)?;
        let get = RecordCommand::Get { key: key.clone(), fields: None };
        let transaction = Transaction::new()
            .guard(Guard::Record { key: key.clone(), is: None })
            .step(grant)
            .otherwise(vec![again.into(), get.into()]);
        let receipt = self.db.execute(transaction)?;
        match (receipt.held, &receipt.answers[..]) {
            (true, _) => Ok(Some(receipt.revision)),
            (false, [Answer::MaybeCounter(Some(_)), Answer::Record(Some(record))]) => {
                holder(record).map(|holder| Some(holder.token))
            }
            (false, _) => Ok(None),
        }
    }

    /// As [`Locks::take`], and waits for the lock for at most so long.
    pub fn take_within(
        &self,
        name: &str,
        owner: &str,
        lease: Duration,
        timeout: Duration,
    ) -> Result<Option<Revision>> {
        let until = wait::end_of(self.now_us()?, timeout);
        loop {
            let seen = self.db.try_revision()?;
            if let Some(token) = self.take(name, owner, lease)? {
                return Ok(Some(token));
            }
            let now = self.now_us()?;
            if now >= until {
                return Ok(None);
            }
            let free = self.holder(name)?.map(|holder| holder.until.unwrap_or(until));
            wait::for_change(&self.db, seen, now, free.unwrap_or(now).min(until))?;
        }
    }

    /// Begins the lease anew. Whoever no longer has the lock gets `Fenced`.
    pub fn renew(&self, name: &str, token: Revision, lease: Duration) -> Result<()> {
        let lease_ms = checked_ms(lease)?;
        let write = RecordWrite::to(&self.key(name))?
            .when(fence(token)?)
            .set(RENEWED_AT, NOW)?
            .ttl(Ttl::Millis(lease_ms));
        self.db.execute(Transaction::new().must(write)).map(drop)
    }

    /// Gives a lock back; says whether it was held. Of another holder's lock that is `Fenced`.
    pub fn free(&self, name: &str, token: Revision) -> Result<bool> {
        let (key, when) = (Name::new(&self.key(name))?, vec![fence(token)?]);
        let freed = self.db.execute(Transaction::new().must(RecordCommand::Delete { key, when }));
        match freed {
            Ok(_) => Ok(true),
            // Nobody has it: it was given back before, or its lease is over.
            Err(error) if error.code() == Code::Fenced && self.holder(name)?.is_none() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Who has a lock.
    pub fn holder(&self, name: &str) -> Result<Option<LockHolder>> {
        let record = self.db.records().get(&self.key(name))?;
        record.as_ref().map(holder).transpose()
    }

    fn now_us(&self) -> Result<Stamp> {
        let nothing = Transaction::new().durability(Durability::Memory);
        Ok(self.db.execute(nothing)?.stamp)
    }
}

fn fence(token: Revision) -> Result<Condition> {
    Ok(Condition::Fence { field: Field::new(TOKEN)?, is: token.to_string().into_bytes() })
}

fn holder(record: &Record) -> Result<LockHolder> {
    let owner = record.fields.text(OWNER).unwrap_or_default().to_owned();
    let token = record.fields.text(TOKEN).and_then(|text| text.parse().ok());
    let token = token.ok_or_else(|| {
        Error::new(Code::CorruptData, "a lock has no token: delete its record to free it")
    })?;
    Ok(LockHolder { owner, token, until: record.expires })
}

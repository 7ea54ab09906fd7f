//! Capability flags of record stores, and errors for missing ones.

use super::{Condition, FieldValue, RecordPick, RecordWrite};
use crate::limits::{self, RECORD_LIMIT_FIELDS, VALUE_LIMIT_BYTES};
use crate::{Code, Error, Field, Result, Ttl};

/// The capabilities of a record store. A store reports them once and they never change. It returns
/// `Unsupported` for everything else, never a weaker guarantee than requested.
///
/// A store sets the capabilities it has and takes the rest from [`Capabilities::none`]. A capability that is
/// added later is then missing by default.
///
/// ```
/// use mainstay_model::{Capabilities, Conditions, Lifetimes};
/// // A bucket of NATS: all records have the same lifetime, and conditions compare whole records.
/// let bucket = Capabilities {
///     lifetimes: Lifetimes::PerStore { ttl_ms: 60_000 },
///     conditions: Conditions::WholeRecord,
///     record_limit_bytes: 1 << 20,
///     ..Capabilities::none("nats")
/// };
/// let claim = mainstay_model::RecordWrite::to("tasks.1")?.when_field("state", "pending")?;
/// let refused = bucket.check_write(&claim.set("state", "claimed")?).unwrap_err();
/// assert!(refused.message().contains("`conditions`"));
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The store's name for messages.
    pub store: &'static str,
    /// The supported lifetimes of records.
    pub lifetimes: Lifetimes,
    /// The supported conditions of a write.
    pub conditions: Conditions,
    /// True if one write can have several conditions.
    pub several_conditions: bool,
    /// True if a condition can be a [`Condition::Fence`].
    pub fences: bool,
    /// True if a field can be set to a monotonic number: [`FieldValue::Revision`].
    pub revisions: bool,
    /// True if a field can be set to the store's clock: [`FieldValue::Millis`].
    pub times: bool,
    /// True if a write can add to a field: [`FieldValue::Sum`].
    pub sums: bool,
    /// How long counters last.
    pub counters: Counters,
    /// The consistency of a scan's page.
    pub scans: Scans,
    /// True if the store evaluates filters itself. It affects only the cost: without it, all records under
    /// the prefix are transferred.
    pub filters_in_store: bool,
    /// True if old versions are kept: [`RecordStore::history`](super::RecordStore::history).
    pub history: bool,
    /// True if the store can find and write a record in one step:
    /// [`RecordStore::pick`](super::RecordStore::pick).
    pub picks: bool,
    /// True if indexes can be declared: [`RecordStore::add_index`](super::RecordStore::add_index).
    pub indexes: bool,
    /// The largest record in bytes, names and values together.
    pub record_limit_bytes: usize,
    /// The most fields of a record.
    pub record_limit_fields: usize,
}

/// The supported lifetimes of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lifetimes {
    /// Records live until they are deleted.
    Unlimited,
    /// All records have the same time to live, counted from their last write.
    PerStore {
        /// The time to live, in milliseconds.
        ttl_ms: u64,
    },
    /// Each record has its own time to live.
    PerRecord {
        /// A time to live is rounded up to a multiple of this. After it, the record is invisible at once.
        granularity_ms: u64,
    },
}

/// The supported conditions of a write or a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Conditions {
    /// No conditions.
    Nothing,
    /// The counter and the record's existence.
    WholeRecord,
    /// The counter, the record's existence and the values of its fields.
    Fields,
}

/// How long the counter of a key lasts. Each write of an existing record raises it by an unspecified amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Counters {
    /// While the record exists. A new record may restart the counter, so a counter read before a deletion may
    /// match again.
    PerLife,
    /// Across deletion and expiry: a counter value never matches again.
    Lasting,
}

/// The consistency of a scan's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scans {
    /// Each record as of some time during the call.
    PerRecord,
    /// All records as of one time.
    Snapshot,
}

impl Capabilities {
    /// A store that can only read, write, delete and scan, within the general limits.
    pub const fn none(store: &'static str) -> Capabilities {
        Capabilities {
            store,
            lifetimes: Lifetimes::Unlimited,
            conditions: Conditions::Nothing,
            several_conditions: false,
            fences: false,
            revisions: false,
            times: false,
            sums: false,
            counters: Counters::PerLife,
            scans: Scans::PerRecord,
            filters_in_store: false,
            history: false,
            picks: false,
            indexes: false,
            record_limit_bytes: VALUE_LIMIT_BYTES,
            record_limit_fields: RECORD_LIMIT_FIELDS,
        }
    }

    /// A store with every capability.
    pub const fn all(store: &'static str) -> Capabilities {
        Capabilities {
            lifetimes: Lifetimes::PerRecord { granularity_ms: 1 },
            conditions: Conditions::Fields,
            several_conditions: true,
            fences: true,
            revisions: true,
            times: true,
            sums: true,
            counters: Counters::Lasting,
            scans: Scans::Snapshot,
            filters_in_store: true,
            history: true,
            picks: true,
            indexes: true,
            ..Capabilities::none(store)
        }
    }

    /// The error for a missing capability.
    #[cold]
    pub fn lacks(&self, capability: &str, asked: &str) -> Error {
        lacks(self.store, capability, asked)
    }

    /// Rejects a write that is invalid or that the store does not support.
    pub fn check_write(&self, write: &RecordWrite) -> Result<()> {
        write.check()?;
        self.check_conditions(&write.when)?;
        self.check_values(&write.set)?;
        self.check_ttl(write.ttl)
    }

    /// Rejects a pick that is invalid or that the store does not support.
    pub fn check_pick(&self, pick: &RecordPick) -> Result<()> {
        if !self.picks {
            return Err(self.lacks("picks", "finding and writing in one step"));
        }
        pick.check()?;
        self.check_values(&pick.set)?;
        self.check_ttl(pick.ttl)
    }

    /// Rejects conditions that the store cannot check atomically with the write.
    pub fn check_conditions(&self, when: &[Condition]) -> Result<()> {
        limits::check_conditions(when.len())?;
        if when.len() > 1 && !self.several_conditions {
            return Err(self.lacks("several_conditions", "a write with several conditions"));
        }
        when.iter().try_for_each(|condition| self.check_condition(condition))
    }

    fn check_condition(&self, condition: &Condition) -> Result<()> {
        let (needed, asked) = match condition {
            Condition::Fence { .. } if !self.fences => {
                return Err(self.lacks("fences", "a condition that is a fence"));
            }
            Condition::Counter { .. } => (Conditions::WholeRecord, "a condition on the counter"),
            Condition::Exists => (Conditions::WholeRecord, "a condition that the record is there"),
            Condition::Field { .. } | Condition::Fence { .. } => {
                (Conditions::Fields, "a condition on a field")
            }
        };
        if self.conditions < needed { Err(self.lacks("conditions", asked)) } else { Ok(()) }
    }

    fn check_values(&self, set: &[(Field, FieldValue)]) -> Result<()> {
        for (_, value) in set {
            match value {
                FieldValue::Revision if !self.revisions => {
                    return Err(self.lacks("revisions", "a number that only rises"));
                }
                FieldValue::Millis { .. } if !self.times => {
                    return Err(self.lacks("times", "the store's own time in a field"));
                }
                FieldValue::Sum { .. } if !self.sums => {
                    return Err(self.lacks("sums", "adding to a field"));
                }
                FieldValue::Copy { .. } if !self.sums => {
                    return Err(self.lacks("sums", "what another field holds"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Rejects a time to live that the store does not support. `Keep` is never rejected.
    pub fn check_ttl(&self, ttl: Ttl) -> Result<()> {
        match (self.lifetimes, ttl) {
            (_, Ttl::Keep)
            | (Lifetimes::PerRecord { .. }, _)
            | (Lifetimes::Unlimited, Ttl::Clear) => Ok(()),
            _ => Err(self.lacks("lifetimes", "a time to live of one record")),
        }
    }
}

/// The error for a missing capability.
#[cold]
pub(crate) fn lacks(store: &str, capability: &str, asked: &str) -> Error {
    let message = format!(
        "the store `{store}` lacks the capability `{capability}`, which {asked} needs: ask \
         `capabilities()` first, or use a store that has it"
    );
    Error::new(Code::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write() -> RecordWrite {
        RecordWrite::to("k").unwrap().set("a", "1").unwrap()
    }

    fn words(store: Capabilities, write: RecordWrite) -> String {
        store.check_write(&write).map_or_else(|error| error.to_string(), |()| "taken".to_owned())
    }

    #[test]
    fn a_store_that_can_do_all_refuses_only_nonsense() {
        let store = Capabilities::all("all");
        let fence = Condition::Fence { field: Field::new("t").unwrap(), is: b"1".to_vec() };
        let full = write().when_counter(Some(1)).when(fence).ttl(Ttl::Millis(1));
        assert_eq!(words(store, full.set("n", FieldValue::Revision).unwrap()), "taken");
        let nothing = RecordWrite::to("k").unwrap();
        assert!(words(store, nothing).starts_with("InvalidField"));
    }

    #[test]
    fn what_is_lacking_is_named() {
        let store = Capabilities::none("plain");
        let fence = Condition::Fence { field: Field::new("t").unwrap(), is: b"1".to_vec() };
        let asked = [
            (write().when_counter(None), "`conditions`"),
            (write().when(Condition::Exists), "`conditions`"),
            (write().when_field("a", "1").unwrap(), "`conditions`"),
            (write().when_counter(None).when_counter(None), "`several_conditions`"),
            (write().when(fence), "`fences`"),
            (write().set("r", FieldValue::Revision).unwrap(), "`revisions`"),
            (write().set("t", FieldValue::Millis { plus: 0 }).unwrap(), "`times`"),
            (write().set("n", FieldValue::Sum { by: 1 }).unwrap(), "`sums`"),
            (write().ttl(Ttl::Millis(5)), "`lifetimes`"),
        ];
        for (write, named) in asked {
            let words = words(store, write);
            assert!(words.starts_with("Unsupported") && words.contains(named), "{words}");
            assert!(words.contains("`plain`"), "{words}");
        }
        assert_eq!(words(store, write()), "taken");
    }

    #[test]
    fn a_pick_is_checked_as_a_write_is() {
        let mut store = Capabilities::none("plain");
        let pick = || RecordPick::under("", Vec::new()).set("a", FieldValue::Revision).unwrap();
        let words = |store: Capabilities, pick| store.check_pick(&pick).unwrap_err().to_string();
        assert!(words(store, pick()).contains("`picks`"));
        store.picks = true;
        assert!(words(store, pick()).contains("`revisions`"));
        store.revisions = true;
        assert!(store.check_pick(&pick()).is_ok());
        assert!(words(store, pick().clear("a").unwrap()).starts_with("InvalidField"));
        assert!(words(store, RecordPick { ttl: Ttl::Millis(1), ..pick() }).contains("`lifetimes`"));
    }

    #[test]
    fn what_needs_no_time_to_live_is_taken() {
        let mut store = Capabilities::none("plain");
        assert!(store.check_ttl(Ttl::Keep).is_ok() && store.check_ttl(Ttl::Clear).is_ok());
        store.lifetimes = Lifetimes::PerStore { ttl_ms: 5 };
        assert!(store.check_ttl(Ttl::Keep).is_ok());
        assert!(store.check_ttl(Ttl::Clear).is_err(), "there a record cannot live for ever");
        store.lifetimes = Lifetimes::PerRecord { granularity_ms: 1 };
        assert!(store.check_ttl(Ttl::Until(7)).is_ok());
    }

    #[test]
    fn conditions_on_whole_records_are_not_conditions_on_fields() {
        let store = Capabilities { conditions: Conditions::WholeRecord, ..Capabilities::none("w") };
        assert_eq!(words(store, write().when_counter(Some(3))), "taken");
        assert_eq!(words(store, write().when(Condition::Exists)), "taken");
        assert!(words(store, write().when_field("a", "1").unwrap()).contains("`conditions`"));
    }
}

//! What a store of records can do, and the words for what it cannot.

use super::{Condition, FieldValue, RecordPick, RecordWrite};
use crate::limits::{self, RECORD_LIMIT_FIELDS, VALUE_LIMIT_BYTES};
use crate::{Code, Error, Field, Result, Ttl};

/// What a store can do. A store says so once, keeps to it, and answers `Unsupported` to the rest: never
/// something weaker than what was asked for.
///
/// A store that is made names what it has and takes the rest from [`Capabilities::none`], so that a capability
/// that is thought of later is one it does not have.
///
/// ```
/// use mainstay_model::{Capabilities, Conditions, Lifetimes};
/// // A bucket of NATS: records live equally long, and only whole ones can be compared.
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
    /// What the store is called, for people.
    pub store: &'static str,
    /// How long records can live.
    pub lifetimes: Lifetimes,
    /// What a write can be conditional on.
    pub conditions: Conditions,
    /// Whether one write can have several conditions.
    pub several_conditions: bool,
    /// Whether a condition can be a [`Condition::Fence`].
    pub fences: bool,
    /// Whether a field can become a number that only rises: [`FieldValue::Revision`].
    pub revisions: bool,
    /// Whether a field can become the store's own time: [`FieldValue::Millis`].
    pub times: bool,
    /// Whether a field can be added to: [`FieldValue::Sum`].
    pub sums: bool,
    /// How long counters go on.
    pub counters: Counters,
    /// What a page of a scan shows.
    pub scans: Scans,
    /// Whether filters are evaluated where the records are. Only the cost depends on it: without, all records
    /// under the prefix travel.
    pub filters_in_store: bool,
    /// Whether versions of before are kept: [`RecordStore::history`](super::RecordStore::history).
    pub history: bool,
    /// Whether one step can find a record and write it: [`RecordStore::pick`](super::RecordStore::pick).
    pub picks: bool,
    /// Whether indexes can be declared: [`RecordStore::add_index`](super::RecordStore::add_index).
    pub indexes: bool,
    /// The most bytes of a record, names and values together.
    pub record_limit_bytes: usize,
    /// The most fields of a record.
    pub record_limit_fields: usize,
}

/// How long records can live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lifetimes {
    /// Until they are deleted.
    Unlimited,
    /// All of them equally long from their last write on.
    PerStore {
        /// How long.
        ttl_ms: u64,
    },
    /// Each as long as it was told.
    PerRecord {
        /// A time to live is rounded up to a multiple of this, and then the record is invisible at once.
        granularity_ms: u64,
    },
}

/// What a write or a deletion can be conditional on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Conditions {
    /// Nothing.
    Nothing,
    /// The counter, and whether the record is there.
    WholeRecord,
    /// These, and what its fields hold.
    Fields,
}

/// How long the counter of a key goes on. It rises with each write wherever there is a record; how much is not said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Counters {
    /// For as long as there is a record: the next one may begin anew, and then a counter that was read before
    /// a deletion may hold again.
    PerLife,
    /// Across deletion and expiry: what was read once never holds again.
    Lasting,
}

/// What a page of a scan shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scans {
    /// Each record as it was at some time during the call.
    PerRecord,
    /// All records as they were at one time.
    Snapshot,
}

impl Capabilities {
    /// A store that can read, write, delete and scan, within the limits that all stores have.
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

    /// A store that can do everything.
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

    /// The error for what needs a capability that the store does not have.
    #[cold]
    pub fn lacks(&self, capability: &str, asked: &str) -> Error {
        lacks(self.store, capability, asked)
    }

    /// Refuses a write that makes no sense, or that the store cannot do as it is.
    pub fn check_write(&self, write: &RecordWrite) -> Result<()> {
        write.check()?;
        self.check_conditions(&write.when)?;
        self.check_values(&write.set)?;
        self.check_ttl(write.ttl)
    }

    /// Refuses a pick that makes no sense, or that the store cannot do as it is.
    pub fn check_pick(&self, pick: &RecordPick) -> Result<()> {
        if !self.picks {
            return Err(self.lacks("picks", "finding and writing in one step"));
        }
        pick.check()?;
        self.check_values(&pick.set)?;
        self.check_ttl(pick.ttl)
    }

    /// Refuses conditions that the store cannot check in the same step as it writes.
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
        match self.conditions < needed {
            true => Err(self.lacks("conditions", asked)),
            false => Ok(()),
        }
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

    /// Refuses a time to live that the store cannot keep. What needs none is never refused.
    pub fn check_ttl(&self, ttl: Ttl) -> Result<()> {
        match (self.lifetimes, ttl) {
            (_, Ttl::Keep)
            | (Lifetimes::PerRecord { .. }, _)
            | (Lifetimes::Unlimited, Ttl::Clear) => Ok(()),
            _ => Err(self.lacks("lifetimes", "a time to live of one record")),
        }
    }
}

/// The error for what needs a capability that a store does not have.
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

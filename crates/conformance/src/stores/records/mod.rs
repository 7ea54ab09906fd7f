//! Record store cases: requirements, the engine's fixture and helpers.

pub mod closing;
pub mod conditions;
pub mod delete;
pub mod expiry;
pub mod fences;
pub mod fields;
pub mod filters;
pub mod history;
pub mod indexes;
pub mod lacking;
pub mod lifetime;
pub mod naming;
pub mod picks;
pub mod programs;
pub mod put;
pub mod races;
pub mod scan;
pub mod swap;
pub mod values;

use crate::TestDb;
use crate::assertions::{filter, keys_of};
use crate::suite::{Contract, Fixture, StoreCase, TestStore};
use mainstay_model::{
    Capabilities, Conditions, Counters, Lifetimes, RecordStore, Scans, Test, Where,
};
use std::sync::Arc;

pub use crate::suite::{LIFE_MS, RACERS};

/// A record store under test.
pub type TestRecords<'f> = TestStore<'f, dyn RecordStore>;

/// A capability that a record store case can require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordRequirement {
    /// A time to live per record.
    Ttl,
    /// One time to live for all records of the store.
    StoreTtl,
    /// Conditions on the counter and on existence.
    CounterConditions,
    /// Conditions on fields.
    FieldConditions,
    /// Several conditions in one write.
    SeveralConditions,
    /// Fencing conditions.
    Fences,
    /// Fields that are set to an increasing revision.
    Revisions,
    /// Fields that are set to the store's current time.
    Times,
    /// Fields that are incremented.
    Sums,
    /// Counters that survive deletion and expiry.
    LastingCounters,
    /// Scan pages that all read the same snapshot.
    Snapshots,
    /// Old versions of records.
    History,
    /// Scan and write in one atomic step.
    Picks,
    /// Declared indexes.
    Indexes,
    /// A manual clock, which moves only when the test advances it.
    ManualClock,
}

impl Contract for dyn RecordStore {
    type Capabilities = Capabilities;
    type Requirement = RecordRequirement;

    fn can(&self) -> Capabilities {
        self.capabilities()
    }

    fn store_name(&self) -> &'static str {
        self.can().store
    }

    fn meets(&self, requirement: RecordRequirement, fixture: &dyn Fixture<Self>) -> bool {
        let can = self.can();
        match requirement {
            RecordRequirement::Ttl => matches!(can.lifetimes, Lifetimes::PerRecord { .. }),
            RecordRequirement::StoreTtl => matches!(can.lifetimes, Lifetimes::PerStore { .. }),
            RecordRequirement::CounterConditions => can.conditions >= Conditions::WholeRecord,
            RecordRequirement::FieldConditions => can.conditions >= Conditions::Fields,
            RecordRequirement::SeveralConditions => can.several_conditions,
            RecordRequirement::Fences => can.fences,
            RecordRequirement::Revisions => can.revisions,
            RecordRequirement::Times => can.times,
            RecordRequirement::Sums => can.sums,
            RecordRequirement::LastingCounters => can.counters == Counters::Lasting,
            RecordRequirement::Snapshots => can.scans == Scans::Snapshot,
            RecordRequirement::History => can.history,
            RecordRequirement::Picks => can.picks,
            RecordRequirement::Indexes => can.indexes,
            RecordRequirement::ManualClock => fixture.has_manual_clock(),
        }
    }

    fn cases() -> &'static [StoreCase<Self>] {
        crate::registry::RECORD_STORE_CASES
    }
}

impl Fixture<dyn RecordStore> for TestDb {
    fn open(&self, _: &str) -> Arc<dyn RecordStore> {
        Arc::new(self.records())
    }

    fn pass_ms(&self, ms: u64) {
        TestDb::pass_ms(self, ms);
    }

    fn has_manual_clock(&self) -> bool {
        true
    }
}

impl TestRecords<'_> {
    /// The fields of a record as pairs of strings; `None` if the record is absent.
    #[track_caller]
    pub fn shown(&self, key: &str) -> Option<Vec<(String, String)>> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let record = self.ok(self.get(key))?;
        let pairs = record.fields.iter().map(|(name, value)| (text(name.as_bytes()), text(value)));
        Some(pairs.collect())
    }

    /// Asserts that a record has exactly these fields.
    #[track_caller]
    pub fn holds(&self, key: &str, pairs: &[(&str, &str)]) {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        assert_eq!(self.shown(key), Some(pairs.iter().map(pair).collect()), "{key}");
    }

    /// Asserts that a record is absent.
    #[track_caller]
    pub fn is_gone(&self, key: &str) {
        assert_eq!(self.shown(key), None, "{key}");
    }

    /// The counter of a record, which must exist.
    #[track_caller]
    pub fn counter(&self, key: &str) -> u64 {
        self.ok(self.get(key)).expect("the record is there").counter
    }

    /// The keys of all records that match the filters.
    #[track_caller]
    pub fn found(&self, prefix: &str, filters: &[Where]) -> Vec<String> {
        let page = self.ok(self.scan(prefix, filters, None, 1_000));
        keys_of(&page).into_iter().map(str::to_owned).collect()
    }

    /// The keys of all records whose field `f` passes the test.
    #[track_caller]
    pub fn passing(&self, test: fn(Vec<u8>) -> Test, bound: &str) -> Vec<String> {
        self.found("", &[filter("f", test, bound)])
    }

    /// Writes records with one field `f`.
    #[track_caller]
    pub fn fill(&self, records: &[(&str, &str)]) {
        for (key, value) in records {
            self.ok(self.set_field(key, "f", (*value).into()));
        }
    }
}

//! Run store cases: requirements, the engine's fixture and helpers.

pub mod append;
pub mod batch;
pub mod bootstrap;
pub mod closing;
pub mod delete;
pub mod expected;
pub mod fetch;
pub mod idempotency;
pub mod info;
pub mod input;
pub mod keys;
pub mod lacking;
pub mod list;
pub mod programs;
pub mod races;
pub mod restore;
pub mod snapshot;
pub mod tail;

use crate::TestDb;
use crate::suite::{Contract, Fixture, StoreCase, TestStore};
use mainstay_model::{
    Appended, CanonicalEvent, FetchOptions, Listings, NewEvent, RunCapabilities, RunFilter,
    RunSnapshot, RunStore, reduce,
};
use std::sync::Arc;

/// Page limit that no case reaches.
const ALL: usize = 100_000;

/// A run store under test.
pub type TestRuns<'f> = TestStore<'f, dyn RunStore>;

/// A capability that a run store case can require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunRequirement {
    /// Sequences without gaps.
    Contiguous,
    /// Events become visible in sequence order: no event appears after one with a higher sequence.
    Monotone,
    /// Batches of events that append in one step.
    Batches,
    /// Conditional appends on the expected last sequence.
    ExpectedSeq,
    /// Creation of runs with metadata and first events.
    Bootstrap,
    /// Listing runs by name.
    Listing,
    /// Listing runs with more filters than the name.
    ListingFilters,
    /// Deletion of runs.
    Deletion,
    /// Restoring events from an archive.
    Restoring,
    /// Stored snapshots that are never behind the log.
    CurrentSnapshots,
    /// Tails that wake up when an event is appended.
    TailWakes,
    /// A manual clock, which moves only when the test advances it.
    ManualClock,
}

impl Contract for dyn RunStore {
    type Capabilities = RunCapabilities;
    type Requirement = RunRequirement;

    fn can(&self) -> RunCapabilities {
        self.capabilities()
    }

    fn store_name(&self) -> &'static str {
        self.can().store
    }

    fn meets(&self, requirement: RunRequirement, fixture: &dyn Fixture<Self>) -> bool {
        let can = self.can();
        match requirement {
            RunRequirement::Contiguous => can.contiguous,
            RunRequirement::Monotone => can.monotone,
            RunRequirement::Batches => can.batches,
            RunRequirement::ExpectedSeq => can.expected_seq,
            RunRequirement::Bootstrap => can.bootstrap,
            RunRequirement::Listing => can.listing >= Listings::Names,
            RunRequirement::ListingFilters => can.listing >= Listings::Filters,
            RunRequirement::Deletion => can.deletion,
            RunRequirement::Restoring => can.restoring,
            RunRequirement::CurrentSnapshots => can.current_snapshots,
            RunRequirement::TailWakes => can.tail_wakes,
            RunRequirement::ManualClock => fixture.has_manual_clock(),
        }
    }

    fn cases() -> &'static [StoreCase<Self>] {
        crate::registry::RUN_STORE_CASES
    }
}

impl Fixture<dyn RunStore> for TestDb {
    fn open(&self, _: &str) -> Arc<dyn RunStore> {
        Arc::new(self.runs())
    }

    fn pass_ms(&self, ms: u64) {
        TestDb::pass_ms(self, ms);
    }

    /// A tail shows only durable events, so this syncs.
    fn settle(&self) {
        // A closed database has nothing to wait for.
        let _ = self.db().sync();
    }

    fn has_manual_clock(&self) -> bool {
        true
    }
}

/// An event with a plan, from which its idempotency key is derived.
pub fn event(run: &str, event_type: &str) -> NewEvent {
    NewEvent::new(run, event_type).plan("1")
}

/// An event with an idempotency key and data.
pub fn keyed(run: &str, key: &str, data: &str) -> NewEvent {
    NewEvent::new(run, "Tick").with_key(key).value(data)
}

/// Folds events into a run snapshot.
pub fn folded(run: &str, events: &[CanonicalEvent]) -> RunSnapshot {
    let mut snapshot = RunSnapshot::new(run);
    for event in events {
        reduce(&mut snapshot, event);
    }
    snapshot
}

impl TestRuns<'_> {
    /// Appends an event, which must succeed.
    #[track_caller]
    pub fn append(&self, event: NewEvent) -> Appended {
        self.ok(self.append_event(event))
    }

    /// Appends events of these types, each with an optional step. Their positions are their idempotency
    /// keys.
    #[track_caller]
    pub fn tell(&self, run: &str, types: &[(&str, Option<&str>)]) -> Vec<Appended> {
        let one = |(place, (event_type, step)): (usize, &(&str, Option<&str>))| {
            let event = NewEvent::new(run, event_type).with_key(&format!("{place}"));
            self.append(step.iter().fold(event, |event, step| event.step(step)))
        };
        types.iter().enumerate().map(one).collect()
    }

    /// All events of a run.
    #[track_caller]
    pub fn events(&self, run: &str) -> Vec<CanonicalEvent> {
        self.settle();
        self.ok(self.fetch_events(run, FetchOptions::default().limit(ALL)))
    }

    /// The only event of a run.
    #[track_caller]
    pub fn only(&self, run: &str) -> CanonicalEvent {
        let mut events = self.events(run);
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    /// Asserts that a run does not exist.
    #[track_caller]
    pub fn is_unknown(&self, run: &str) {
        assert_eq!(self.events(run), [], "{run}");
        assert_eq!(self.ok(self.get(run)), None, "{run}");
    }

    /// The names of the runs that match a filter.
    #[track_caller]
    pub fn listed(&self, filter: &RunFilter) -> Vec<String> {
        self.settle();
        let page = self.ok(self.list(filter, None, 1_000));
        page.runs.into_iter().map(|run| run.run_id).collect()
    }
}

//! Fault injection for run stores: a correct store with some operations replaced.

use super::gappy::Gappy;
use mainstay_conformance::suite::Wrapped;
use mainstay_model::{
    Answering, Appended, CanonicalEvent, FetchOptions, NewEvent, RunCapabilities, RunFilter,
    RunInfo, RunPage, RunSnapshot, RunStore, Value,
};
use std::sync::Arc;

mainstay_conformance::faulty_store! {
    impl RunStore for FaultyRuns {
        fn capabilities() -> RunCapabilities;
        fn append_event<'a>(event: NewEvent) -> Answering<'a, Appended>;
        fn fetch_events<'a>(
            run: &'a str,
            options: FetchOptions
        ) -> Answering<'a, Vec<CanonicalEvent>>;
        fn ping<'a>() -> Answering<'a, bool>;
        fn close<'a>() -> Answering<'a, ()>;
        fn get_snapshot<'a>(run: &'a str) -> Answering<'a, Option<RunSnapshot>>;
        fn get<'a>(run: &'a str) -> Answering<'a, Option<RunInfo>>;
        fn append_batch<'a>(events: Vec<NewEvent>) -> Answering<'a, Vec<Appended>>;
        fn append_expecting<'a>(event: NewEvent, expected_seq: u64) -> Answering<'a, Appended>;
        fn bootstrap<'a>(
            run: &'a str,
            metadata: Value,
            events: Vec<NewEvent>
        ) -> Answering<'a, Vec<Appended>>;
        fn list<'a>(
            filter: &'a RunFilter,
            after: Option<&'a str>,
            limit: usize
        ) -> Answering<'a, RunPage>;
        fn delete_run<'a>(run: &'a str) -> Answering<'a, bool>;
        fn restore<'a>(events: Vec<CanonicalEvent>) -> Answering<'a, ()>;
        fn wait_for<'a>(run: &'a str, after_seq: u64, wait_ms: u64) -> Answering<'a, bool>;
    }
}

/// Adds faults to a store.
pub fn faulty(fixture: Gappy, faults: Faults) -> Wrapped<Gappy, dyn RunStore> {
    Wrapped::new(fixture, |inner| Arc::new(FaultyRuns { inner, faults }))
}

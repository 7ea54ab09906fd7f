//! Fault injection for record stores: the engine with some operations replaced.

use mainstay_conformance::TestDb;
use mainstay_conformance::suite::Wrapped;
use mainstay_model::{
    Answering, Capabilities, Condition, Field, IndexInfo, Name, Record, RecordHistoryEntry,
    RecordPage, RecordPick, RecordStore, RecordWrite, Ttl, Where,
};
use std::sync::Arc;

mainstay_conformance::faulty_store! {
    impl RecordStore for FaultyRecords {
        fn capabilities() -> Capabilities;
        fn get_some<'a>(key: &'a Name, wanted: Option<&'a [Field]>) -> Answering<'a, Option<Record>>;
        fn write<'a>(write: RecordWrite) -> Answering<'a, Option<u64>>;
        fn delete_when<'a>(key: &'a str, when: Vec<Condition>) -> Answering<'a, bool>;
        fn expire<'a>(key: &'a str, ttl: Ttl) -> Answering<'a, bool>;
        fn scan<'a>(
            prefix: &'a str,
            filters: &'a [Where],
            after: Option<&'a str>,
            limit: usize
        ) -> Answering<'a, RecordPage>;
        fn ping<'a>() -> Answering<'a, bool>;
        fn close<'a>() -> Answering<'a, ()>;
        fn pick<'a>(pick: RecordPick) -> Answering<'a, Option<(String, Record)>>;
        fn history<'a>(
            key: &'a str,
            limit: usize,
            before: Option<u64>
        ) -> Answering<'a, Vec<RecordHistoryEntry>>;
        fn add_index<'a>(prefix: &'a str, fields: &'a [Field]) -> Answering<'a, u32>;
        fn drop_index<'a>(id: u32) -> Answering<'a, bool>;
        fn indexes<'a>() -> Answering<'a, Vec<IndexInfo>>;
    }
}

/// Adds faults to the engine.
pub fn faulty(faults: Faults) -> Wrapped<TestDb, dyn RecordStore> {
    Wrapped::new(TestDb::memory(), |inner| Arc::new(FaultyRecords { inner, faults }))
}

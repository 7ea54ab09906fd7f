//! The handle of the async client is a record store, too.

use super::served::Face;
use mainstay::{Database, RecordStore, Records};
use mainstay_conformance::stores::records::TestRecords;
use mainstay_conformance::suite::Fixture;
use std::sync::Arc;

/// A store without control over its clock.
struct Timeless(Arc<dyn RecordStore>);

impl Fixture<dyn RecordStore> for Timeless {
    fn open(&self, _: &str) -> Arc<dyn RecordStore> {
        self.0.clone()
    }
}

#[test]
fn an_awaited_handle_is_a_store() {
    let db = Database::memory().unwrap();
    let face = Face::of(&db);
    let nothing = Timeless(Arc::new(db.records()));
    let connected = TestRecords::of(&nothing).wait(face.options().connect_async()).unwrap();
    let fixture = Timeless(Arc::new(Records::from(connected.records())));
    let store = TestRecords::of(&fixture);
    store.ok(store.set_field("k", "a", "1".into()));
    assert_eq!(db.records().get_field("k", "a").unwrap(), Some(b"1".to_vec()));
    store.ok(store.close());
    assert!(!store.ok(store.ping()));
    assert!(db.records().get("k").unwrap().is_some(), "the server goes on");
}

#[test]
fn a_server_that_cannot_be_reached_is_no_error_to_ping() {
    let db = Database::memory().unwrap();
    let face = Face::of(&db);
    let options = face.options().patience(std::time::Duration::from_millis(200));
    let client = options.connect().unwrap();
    let fixture = Timeless(Arc::new(client.records()));
    let store = TestRecords::of(&fixture);
    assert!(store.ok(store.ping()));
    drop(face);
    assert!(!store.ok(store.ping()));
}

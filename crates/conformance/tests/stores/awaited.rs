//! The handle of the async client is a record store, too.

use super::served::Face;
use mainstay::{Database, RecordStore, Records};
use mainstay_conformance::StoreWorld;
use mainstay_conformance::stand::Stand;
use std::sync::Arc;

/// A store without control over its clock.
struct Timeless(Arc<dyn RecordStore>);

impl StoreWorld for Timeless {
    fn store(&self) -> Arc<dyn RecordStore> {
        self.0.clone()
    }

    fn pass_ms(&self, ms: u64) {
        std::thread::sleep(std::time::Duration::from_millis(ms));
    }
}

#[test]
fn an_awaited_handle_is_a_store() {
    let db = Database::memory().unwrap();
    let face = Face::of(&db);
    let nothing = Timeless(Arc::new(db.records()));
    let connected = Stand::of(&nothing).wait(face.options().connect_async()).unwrap();
    let world = Timeless(Arc::new(Records::from(connected.records())));
    let stand = Stand::of(&world);
    stand.ok(stand.set_field("k", "a", "1".into()));
    assert_eq!(db.records().get_field("k", "a").unwrap(), Some(b"1".to_vec()));
    stand.ok(stand.close());
    assert!(!stand.ok(stand.ping()));
    assert!(db.records().get("k").unwrap().is_some(), "the server goes on");
}

#[test]
fn a_server_that_cannot_be_reached_is_no_error_to_ping() {
    let db = Database::memory().unwrap();
    let face = Face::of(&db);
    let options = face.options().patience(std::time::Duration::from_millis(200));
    let client = options.connect().unwrap();
    let world = Timeless(Arc::new(client.records()));
    let stand = Stand::of(&world);
    assert!(stand.ok(stand.ping()));
    drop(face);
    assert!(!stand.ok(stand.ping()));
}

//! Crashes between two steps: acknowledged data is there, and partial data belongs to no visible generation.

use mainstay::{
    Database, Durability, KeyedState, Options, SpaceOptions, StateWrite, Transaction, VersionKind,
};
use std::io::{self, Read};

fn open(directory: &std::path::Path) -> Database {
    Options::new().sweep_interval(None).open(directory).unwrap()
}

/// A reader that fails in the middle, like a lost connection.
struct Broken<'b>(&'b [u8]);

impl Read for Broken<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self.0.read(room)? {
            0 => Err(io::Error::other("the other side is gone")),
            read => Ok(read),
        }
    }
}

/// A restore whose stream breaks off leaves the space unchanged, and leaves no garbage behind.
#[test]
fn a_stream_that_breaks_off_leaves_everything() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    let from = db.keyed("from").unwrap();
    let keyed = db.keyed("s").unwrap();
    for key in 0..5_u8 {
        from.put([key], vec![key; 1 << 20], 1).unwrap();
    }
    keyed.put("a", "old", 1).unwrap();
    let large = from.snapshot().unwrap();
    let before = keyed.snapshot().unwrap();
    keyed.restore_from(&mut Broken(&large[..4 << 20])).unwrap_err();
    assert_eq!(keyed.snapshot().unwrap(), before);
    assert!(db.reap().unwrap() > 0, "what was filled goes");
    drop((keyed, from, db));
    let db = open(directory.path());
    assert_eq!(db.keyed("s").unwrap().snapshot().unwrap(), before);
    assert_eq!(db.reap().unwrap(), 0);
    let report = {
        db.close().unwrap();
        mainstay::doctor::inspect(directory.path()).unwrap()
    };
    assert!(report.is_healthy(), "{report}");
}

/// States and positions of unsynced batches are from the same revision, and a synced transaction makes
/// everything before it durable.
#[test]
fn a_reopen_shows_one_moment() {
    let directory = tempfile::tempdir().unwrap();
    let db = open(directory.path());
    let keyed = db.keyed("s").unwrap().durability(Durability::Memory);
    let options = SpaceOptions::default().versions(VersionKind::U64).ordered();
    keyed.declare(options).unwrap();
    for n in 1..=100_u64 {
        let batch = vec![StateWrite::put("k", n.to_string(), n), StateWrite::advance("in", n)];
        keyed.write(batch).unwrap();
        keyed.seal(n).unwrap();
    }
    db.execute(
        Transaction::new()
            .step(mainstay::CellCommand::set(mainstay::Name::new("synced").unwrap(), 1)),
    )
    .unwrap();
    drop((keyed, db));
    let keyed = open(directory.path()).keyed("s").unwrap();
    assert_eq!(keyed.positions().unwrap(), [("in".to_owned(), 100)]);
    assert_eq!(keyed.get("k").unwrap().unwrap().version, 99.into());
    assert_eq!(keyed.waiting(None, 9).unwrap().len(), 1);
}

//! Keyed state through the remote client: the answers equal those of an embedded database.

use crate::support::Ours;
use mainstay::remote::{self, AsyncInteractive};
use mainstay::{
    At, Code, Database, Durability, KeySelection, KeyedState, LogicalTime, SpaceOptions,
    StateWrite, VersionKind, Wrote,
};

fn connect(server: &Ours) -> Database {
    remote::connect(&server.address.to_string()).unwrap()
}

/// Runs some of every operation. Returns the answers as text.
fn everything(db: &Database) -> Vec<String> {
    let space = db.keyed("counts").unwrap();
    let mut said = Vec::new();
    let mut say =
        |what: &str, answer: &dyn std::fmt::Debug| said.push(format!("{what} {answer:?}"));
    say("info", &space.info());
    say("put", &space.put("a", "1", 7));
    say("put", &space.put("a", "2", 7));
    say("put", &space.put("a", "2", LogicalTime::new(1, 1)).map_err(|error| error.code()));
    say("put", &space.put("", "2", 8).map_err(|error| error.code()));
    say("delete", &space.delete("b", 1));
    say("delete", &space.delete("a", 6));
    say("append", &space.append_unique("a", "1", "item"));
    say("append", &space.append_unique("a", "1", "other"));
    let writes = vec![StateWrite::put("c", [0, 255], 9), StateWrite::advance("orders", 9)];
    say("write", &space.write(writes.clone()));
    say("write", &space.write(writes));
    let first = db.revision();
    say("get", &space.get("a"));
    say("get", &space.get("none"));
    say("look", &space.look(&[b"a", b"b", b"none"]));
    say("scan", &space.scan(b"", None, 1));
    say("scan", &space.scan(b"c", Some(b"a"), 9));
    say("scan", &space.scan(b"", None, 0).map_err(|error| error.code()));
    say("items", &space.items(b"a", None, 9));
    say("positions", &space.positions());
    say("info", &space.info());
    say("declare", &space.declare(SpaceOptions::default()));
    say("declare", &space.declare(SpaceOptions::default().ordered()).map_err(|e| e.code()));
    say("seal", &space.seal(5));
    let ordered = db.keyed("ordered").unwrap().durability(Durability::Memory);
    say("declare", &ordered.declare(SpaceOptions::default().ordered().versions(VersionKind::Time)));
    for round in 0..3 {
        say("put", &ordered.put("k", round.to_string(), LogicalTime::new(1, round)));
    }
    say("waiting", &ordered.waiting(Some(LogicalTime::new(1, 2).into()), 9));
    say("seal", &ordered.seal(LogicalTime::new(1, 2)));
    say("get", &ordered.get("k"));
    say("spaces", &db.spaces("", None, 1));
    say("spaces", &db.spaces("o", None, 9));
    let bytes = space.snapshot().unwrap();
    say("snapshot", &bytes);
    let some = space.snapshot_keys(&KeySelection::Prefix(Vec::new())).unwrap();
    say("snapshot_keys", &some);
    say("since", &space.snapshot_since(None, &mut Vec::new()).map(|taken| taken.is_full));
    space.put("a", "later", 99).unwrap();
    let then = space.at(At::Revision(first)).unwrap();
    say("then", &then.revision());
    say("then", &then.get("a"));
    say("then", &then.scan(b"", None, 9));
    say("then", &then.items(b"a", None, 9));
    say("then", &then.positions());
    say("then", &then.info());
    let view = db.cells().at(At::Revision(first)).unwrap();
    say("view", &view.keyed("counts").unwrap().get("a"));
    say("restore", &space.restore(&bytes));
    say("restored", &(space.snapshot().unwrap() == bytes));
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    say("restore", &space.restore(&damaged).map_err(|error| error.code()));
    say("restored", &(space.snapshot().unwrap() == bytes));
    say("restore_keys", &db.keyed("other").unwrap().restore_keys(&some));
    db.fork("side", "main", At::Latest).unwrap();
    let side = db.branch("side").unwrap().keyed("counts").unwrap();
    say("side", &side.put("a", "side", 50));
    say("side", &space.get("a"));
    say("clear", &space.clear());
    say("clear", &space.clear());
    say("side", &side.get("a"));
    said
}

#[test]
fn there_is_as_here() {
    let server = Ours::start();
    let here = everything(&Database::memory().unwrap());
    let there = everything(&connect(&server));
    assert_eq!(there, here);
    for line in ["put Ok(Stale)", "put Err(InvalidVersion)", "restore Err(CorruptData)"] {
        assert!(here.iter().any(|said| said == line), "{line}: {here:#?}");
    }
}

/// More than one page, and more than one piece, of everything.
#[test]
fn a_large_space_is_taken_and_restored_in_pieces() {
    let server = Ours::start();
    let db = connect(&server);
    let from = server.db.keyed("from").unwrap();
    for piece in 0..6_u64 {
        from.write(
            (0..1000)
                .map(|n| StateWrite::put((piece * 1000 + n).to_be_bytes(), vec![n as u8; 2048], n))
                .collect(),
        )
        .unwrap();
    }
    let mut bytes = Vec::new();
    let summary = db.keyed("from").unwrap().snapshot_to(&mut bytes).unwrap();
    assert_eq!((summary.entries, summary.bytes), (6000, bytes.len() as u64));
    assert_eq!(bytes, from.snapshot().unwrap());
    let to = db.keyed("to").unwrap();
    to.put("before", "x", 1).unwrap();
    let before = server.db.revision();
    assert_eq!(to.restore_from(&mut bytes.as_slice()).unwrap(), 6000);
    assert!(server.db.revision() > before + 2, "in pieces");
    assert_eq!(to.get("before").unwrap(), None);
    assert_eq!(server.db.keyed("to").unwrap().snapshot().unwrap(), bytes);
    let cut = &bytes[..bytes.len() - 7];
    to.put("now", "x", 1).unwrap();
    assert_eq!(to.restore_from(&mut &cut[..]).unwrap_err().code(), Code::CorruptData);
    assert_eq!(to.get("now").unwrap().unwrap().value, b"x", "it is as it was");
}

#[test]
fn a_transaction_sees_its_own_states_and_conflicts_with_those_of_others() {
    let server = Ours::start();
    for db in [Database::memory().unwrap(), connect(&server)] {
        let space = db.keyed("s").unwrap();
        space.put("a", "1", 1).unwrap();
        let mut t = db.begin().unwrap();
        let writes = vec![StateWrite::put("a", "2", 2), StateWrite::advance("orders", 3)];
        assert_eq!(t.write_states("s", writes).unwrap(), [Wrote::Applied, Wrote::Applied]);
        assert_eq!(t.get_state("s", "a").unwrap().unwrap().value, b"2");
        t.set("cell", 1).unwrap();
        assert_eq!(space.get("a").unwrap().unwrap().value, b"1", "nobody else sees it");
        t.commit().unwrap();
        assert_eq!(space.positions().unwrap(), [("orders".to_owned(), 3)]);
        let mut t = db.begin().unwrap();
        assert_eq!(t.get_state("s", "b").unwrap(), None);
        t.set("cell", 2).unwrap();
        space.put("b", "x", 1).unwrap();
        assert_eq!(t.commit().unwrap_err().code(), Code::Conflict);
    }
}

#[tokio::test]
async fn the_handles_to_be_awaited_have_the_same_methods() {
    let server = Ours::start();
    let db = remote::connect_async(&server.address.to_string()).await.unwrap();
    let space = db.keyed("s").unwrap();
    assert!(space.declare(SpaceOptions::default().ordered()).await.unwrap());
    assert_eq!(space.put("a", "1", 1).await.unwrap(), Wrote::Waiting);
    assert_eq!(space.delete("b", 2).await.unwrap(), Wrote::Waiting);
    assert_eq!(space.seal(3).await.unwrap(), 2);
    assert_eq!(space.get("a").await.unwrap().unwrap().value, b"1");
    assert_eq!(space.look(&[b"a", b"c"]).await.unwrap()[1], None);
    assert!(space.append_unique("a", "1", "item").await.unwrap());
    assert_eq!(space.items(b"a", None, 9).await.unwrap().len(), 1);
    assert_eq!(
        space.write(vec![StateWrite::advance("orders", 1)]).await.unwrap(),
        [Wrote::Applied]
    );
    assert_eq!(space.positions().await.unwrap().len(), 1);
    assert_eq!(space.scan(b"", None, 9).await.unwrap().states.len(), 1);
    assert_eq!(space.info().await.unwrap().unwrap().frontier, Some(3.into()));
    let then = space.at(At::Latest).await.unwrap();
    let add = async |t: &mut AsyncInteractive| {
        let wrote = t.write_states("s", vec![StateWrite::append("a", "2", "item")]).await?;
        assert_eq!(wrote, [Wrote::Applied]);
        t.get_state("s", "a").await.map(drop)
    };
    db.transaction(add).await.unwrap();
    assert!(space.clear().await.unwrap());
    assert_eq!(then.get("a").await.unwrap().unwrap().value, b"1");
    assert_eq!(then.scan(b"", None, 9).await.unwrap().states.len(), 1);
}

//! Records through the remote client: the answers equal those of an embedded database.

use crate::proxy::Proxy;
use crate::support::Ours;
use mainstay::remote::{self, AsyncInteractive};
use mainstay::{
    At, Code, Condition, Contract, Database, Field, FieldValue, Fields, Filter, Name, RecordWrite,
    Test, Ttl, Where,
};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

fn connect(server: &Ours) -> Database {
    remote::connect(&server.address.to_string()).unwrap()
}

fn fields(pairs: &[(&str, &str)]) -> Fields {
    Fields::of(pairs.iter().copied()).unwrap()
}

fn is(field: &str, value: &str) -> Where {
    Where { field: Field::new(field).unwrap(), test: Test::Eq(value.into()) }
}

/// Runs some of every operation. Returns the answers as text.
fn everything(db: &Database) -> Vec<String> {
    let records = db.records();
    let mut said = Vec::new();
    let mut say =
        |what: &str, answer: &dyn std::fmt::Debug| said.push(format!("{what} {answer:?}"));
    say("put", &records.put("j/1", &fields(&[("state", "pending"), ("n", "1")]), None));
    say("put", &records.put("j/2", &fields(&[("state", "done")]), Some(Ttl::Millis(60_000))));
    say("cas", &records.compare_and_swap("j/1", "state", "pending", "claimed"));
    say("cas", &records.compare_and_swap("j/1", "state", "pending", "claimed"));
    say("set", &records.set_field("j/1", "n", FieldValue::Sum { by: 4 }));
    let token = RecordWrite::to("j/1").unwrap().set("token", FieldValue::Revision).unwrap();
    say("write", &records.write(token));
    let fence = |is: &str| Condition::Fence { field: Field::new("token").unwrap(), is: is.into() };
    let held =
        |is: &str| RecordWrite::to("j/1").unwrap().when(fence(is)).set("state", "x").unwrap();
    say("held", &records.write(held("5")));
    say("not held", &records.write(held("4")).map_err(|error| (error.code(), error.position())));
    say(
        "text",
        &records.set_field("j/1", "state", FieldValue::Sum { by: 1 }).map_err(|e| e.code()),
    );
    say("replace", &records.replace("j/3", &fields(&[("a", "1"), ("b", "2")]), None));
    say("set", &records.set_fields("j/3", &fields(&[("c", "3")])));
    say("clear", &records.clear_field("j/3", "a"));
    say("field", &records.get_field("j/3", "b"));
    say("field", &records.get_field("j/3", "a"));
    let plain = |record: mainstay::Record| (record.fields, record.counter, record.revision);
    say("get", &records.get("j/1").map(|record| record.map(plain)));
    say("get", &records.get("none").map(|record| record.map(plain)));
    let some = records.get_some(&Name::new("j/3").unwrap(), Some(&[Field::new("c").unwrap()]));
    say("some", &some.map(|record| record.map(plain)));
    let keys = |page: mainstay::RecordPage| {
        let keys: Vec<_> = page.records.into_iter().map(|(key, r)| (key, plain(r))).collect();
        (keys, page.next)
    };
    say("scan", &records.scan("j/", &[], None, 2).map(keys));
    say("scan", &records.scan("j/", &[], Some("j/2"), 2).map(keys));
    say("scan", &records.scan("", &[is("state", "done")], None, 9).map(keys));
    say("scan", &records.scan("", &[], None, 0).map_err(|error| error.code()));
    say("count", &records.count("j/", &[]));
    say("count", &records.count("j/", &[is("state", "x")]));
    say("expire", &records.expire("j/3", Ttl::Millis(60_000)));
    say("expires", &records.get("j/3").map(|record| record.unwrap().expires.is_some()));
    say("delete", &records.delete_when("j/3", vec![Condition::Counter { is: Some(1) }]));
    say("delete", &records.delete("j/3"));
    say("delete", &records.delete("j/3"));
    let version = |entry: mainstay::RecordHistoryEntry| (entry.counter, entry.writes, entry.fields);
    let versions = |entries: Vec<_>| entries.into_iter().map(version).collect::<Vec<_>>();
    say("history", &records.history("j/3", 2, None).map(versions));
    say("history", &records.history("j/3", 9, Some(3)).map(versions));
    let then = records.at(At::Revision(2)).unwrap();
    say("then", &then.revision());
    say("then", &then.get("j/1").map(|record| record.map(plain)));
    say("then", &then.get_fields("j/1", &["n"]).map(|record| record.map(plain)));
    say("then", &then.scan("", &[is("state", "pending")], None, 9).map(keys));
    say("then", &then.count("", &[]));
    say("then", &then.history("j/1", 9, None).map(versions));
    say("name", &records.get("").map_err(|error| error.code()));
    db.fork("side", "main", At::Latest).unwrap();
    let side = db.branch("side").unwrap().records();
    say("side", &side.set_field("j/1", "state", "aside"));
    say("side", &side.get_field("j/1", "state"));
    say("main", &records.get_field("j/1", "state"));
    said
}

#[test]
fn there_is_as_here() {
    let server = Ours::start();
    let here = everything(&Database::memory().unwrap());
    let there = everything(&connect(&server));
    assert_eq!(there, here);
    assert!(here.iter().any(|line| line == "not held Err((Fenced, Some(0)))"), "{here:#?}");
}

#[test]
fn bytes_that_are_no_text_survive() {
    let server = Ours::start();
    let records = connect(&server).records();
    let odd = Fields::of([(&b"\xff\x00"[..], &b"\x00\xfe"[..]), (b"", b"")]).unwrap();
    records.put("a", &odd, None).unwrap();
    assert_eq!(records.get("a").unwrap().unwrap().fields, odd);
    let key = Name::new("a").unwrap();
    let wanted = [Field::new(b"\xff\x00").unwrap()];
    let some = records.get_some(&key, Some(&wanted)).unwrap().unwrap().fields;
    assert_eq!(some, Fields::of([(b"\xff\x00", b"\x00\xfe")]).unwrap());
}

#[test]
fn a_view_holds_still_and_shows_cells_and_records() {
    let server = Ours::start();
    let proxy = Proxy::to(server.address);
    let db = proxy.options().connect().unwrap();
    db.cells().set("c", 1).unwrap();
    db.records().set_field("r", "f", "1").unwrap();
    let before = proxy.count();
    let view = db.cells().at(At::Latest).unwrap();
    let records = view.records();
    assert_eq!(records.revision(), view.revision());
    db.cells().set("c", 2).unwrap();
    db.records().set_field("r", "f", "2").unwrap();
    drop(view);
    assert_eq!(records.get("r").unwrap().unwrap().fields.text("f"), Some("1"));
    assert_eq!(records.scan("", &[is("f", "2")], None, 9).unwrap().records, []);
    assert_eq!(records.count("", &[is("f", "1")]).unwrap(), 1);
    assert_eq!(proxy.count(), before + 1, "one view, one connection");
}

#[test]
fn a_scan_has_a_connection_of_its_own_and_is_asked_again_when_that_breaks() {
    let server = Ours::start();
    let proxy = Proxy::to(server.address);
    let db = proxy.options().connect().unwrap();
    db.records().set_field("r", "f", "1").unwrap();
    db.records().get("r").unwrap();
    let before = proxy.count();
    assert_eq!(db.records().count("", &[]).unwrap(), 1);
    assert_eq!(proxy.count(), before + 1, "nobody waits behind it");
    for _ in 0..3 {
        proxy.cut();
        assert_eq!(db.records().scan("", &[], None, 9).unwrap().records.len(), 1);
        assert_eq!(db.records().get_field("r", "f").unwrap().as_deref(), Some(&b"1"[..]));
    }
}

#[test]
fn a_transaction_sees_its_own_records_and_conflicts_with_those_of_others() {
    let server = Ours::start();
    for db in [Database::memory().unwrap(), connect(&server)] {
        let records = db.records();
        records.put("j/1", &fields(&[("state", "pending")]), None).unwrap();
        let mut t = db.begin().unwrap();
        let claim = RecordWrite::to("j/1").unwrap().when_field("state", "pending").unwrap();
        assert_eq!(t.write_record(claim.set("state", "claimed").unwrap()).unwrap(), Some(2));
        t.write_record(RecordWrite::to("j/2").unwrap().set("state", "claimed").unwrap()).unwrap();
        assert_eq!(t.get_record("j/2").unwrap().unwrap().revision, 0, "not committed yet");
        let claimed = [is("state", "claimed")];
        let page = t.scan_records("j/", &claimed, None, 1).unwrap();
        assert_eq!((page.records.len(), page.next.as_deref()), (1, Some("j/1")));
        assert_eq!(t.count_records("", &claimed).unwrap(), 2);
        assert!(t.expire_record("j/2", Ttl::Millis(60_000)).unwrap());
        assert!(!t.delete_record("j/2", vec![Condition::Counter { is: Some(9) }]).unwrap());
        assert_eq!(records.count("", &claimed).unwrap(), 0, "nobody else sees it");
        t.set("cell", 1).unwrap();
        t.commit().unwrap();
        assert_eq!(records.count("", &claimed).unwrap(), 2);

        let mut t = db.begin().unwrap();
        assert_eq!(t.count_records("j/", &[]).unwrap(), 2);
        t.set("counted", 2).unwrap();
        records.set_field("j/3", "state", "pending").unwrap();
        assert_eq!(t.commit().unwrap_err().code(), Code::Conflict);
        // A blind write causes no conflict.
        let mut t = db.begin().unwrap();
        t.write_record(RecordWrite::to("j/3").unwrap().set("a", "1").unwrap()).unwrap();
        records.set_field("j/3", "b", "2").unwrap();
        t.commit().unwrap();
        assert_eq!(records.get("j/3").unwrap().unwrap().fields.len(), 3);
    }
}

#[test]
fn changes_of_records_are_followed_with_their_fields() {
    let server = Ours::start();
    let db = connect(&server);
    let filter = Filter { contract: Some(Contract::Records), ..Filter::default() };
    let mut feed = db.watch(filter, db.revision()).unwrap();
    db.cells().set("a", 1).unwrap();
    db.records().put("a", &fields(&[("f", "1")]), None).unwrap();
    db.records().delete("a").unwrap();
    let set = feed.next(PATIENCE).unwrap().unwrap();
    assert_eq!((set.contract, set.key.as_str()), (Contract::Records, "a"));
    assert_eq!((set.fields, set.value, set.counter), (Some(fields(&[("f", "1")])), None, 1));
    let gone = feed.next(PATIENCE).unwrap().unwrap();
    assert_eq!((gone.kind, gone.fields, gone.counter), (mainstay::ChangeKind::Deleted, None, 2));
}

#[tokio::test]
async fn the_handles_to_be_awaited_have_the_same_methods() {
    let server = Ours::start();
    let db = remote::connect_async(&server.address.to_string()).await.unwrap();
    let records = db.records();
    assert_eq!(records.put("a", &fields(&[("s", "1")]), None).await.unwrap(), 1);
    assert!(records.compare_and_swap("a", "s", "1", "2").await.unwrap());
    assert!(!records.compare_and_swap("a", "s", "1", "2").await.unwrap());
    assert_eq!(records.set_field("a", "t", "x").await.unwrap(), 3);
    assert_eq!(records.get_field("a", "t").await.unwrap().as_deref(), Some(&b"x"[..]));
    assert_eq!(records.set_fields("a", &fields(&[("u", "y")])).await.unwrap(), 4);
    assert!(records.clear_field("a", "t").await.unwrap());
    assert_eq!(records.get_fields("a", &["s"]).await.unwrap().unwrap().fields.len(), 1);
    assert!(records.expire("a", Ttl::Millis(60_000)).await.unwrap());
    assert_eq!(records.scan("", &[is("s", "2")], None, 9).await.unwrap().records.len(), 1);
    assert_eq!(records.count("", &[is("s", "1")]).await.unwrap(), 0);
    assert_eq!(records.history("a", 9, None).await.unwrap().len(), 6);
    let then = records.at(At::Revision(1)).await.unwrap();
    assert_eq!(then.revision(), 1);
    assert_eq!(then.get("a").await.unwrap().unwrap().fields, fields(&[("s", "1")]));
    assert_eq!(then.scan("", &[], None, 9).await.unwrap().records.len(), 1);
    assert_eq!(then.count("", &[is("s", "1")]).await.unwrap(), 1);
    assert_eq!(then.history("a", 9, None).await.unwrap().len(), 1);
    let too = db.cells().at(At::Revision(1)).await.unwrap().records();
    assert_eq!(too.get_fields("a", &["none"]).await.unwrap().unwrap().fields.len(), 0);
    assert_eq!(records.replace("a", &fields(&[("z", "1")]), None).await.unwrap(), 7);
    let when = vec![Condition::Exists];
    assert!(records.delete_when("a", when).await.unwrap());
    assert!(!records.delete("a").await.unwrap());
    assert_eq!(records.get("a").await.unwrap(), None);

    db.fork("dev", "main", At::Latest).await.unwrap();
    let dev = db.branch("dev").await.unwrap();
    dev.records().set_field("n", "n", "0").await.unwrap();
    let add = async |t: &mut AsyncInteractive| {
        let n = t.get_record("n").await?.expect("it is there");
        let n: u64 = n.fields.text("n").and_then(|n| n.parse().ok()).expect("a number");
        let write = RecordWrite::to("n")?.set("n", (n + 1).to_string())?;
        t.write_record(write).await?;
        assert_eq!(t.count_records("", &[is("n", &(n + 1).to_string())]).await?, 1);
        assert_eq!(t.scan_records("", &[], None, 9).await?.records.len(), 1);
        assert!(t.expire_record("n", Ttl::Millis(60_000)).await?);
        t.delete_record("none", Vec::new()).await
    };
    for _ in 0..3 {
        dev.transaction(add).await.unwrap();
    }
    assert_eq!(dev.records().get_field("n", "n").await.unwrap().as_deref(), Some(&b"3"[..]));
}

//! Creates the state of the fixtures: data of every contract, with branches, history, deletions and expiries.

use mainstay::{
    At, CellCommand, Condition, Database, Field, FieldValue, Fields, Keyed, LogicalTime,
    ManualClock, MergeStrategy, Name, NewEvent, RecordWrite, RequestId, SessionOptions,
    SpaceOptions, StateWrite, Test, Transaction, Ttl, Value, Where,
};
use mainstay_jobs::{Jobs, Retry, Settings, Submission};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

pub fn totals(db: &Database) -> Keyed {
    db.keyed("totals").unwrap()
}

pub fn jobs(db: &Database) -> Jobs {
    Jobs::open(db, Settings::default()).unwrap()
}

/// A transaction with a request ID; a second execution returns the first receipt.
pub fn with_request() -> Transaction {
    let name = Name::new("by request").unwrap();
    let step = CellCommand::Incr { name, by: 5.into() };
    Transaction::new().step(step).request(RequestId::new("request 1").unwrap())
}

/// A transaction that is executed as a request of a session.
pub fn in_session() -> Transaction {
    Transaction::new()
        .step(CellCommand::Incr { name: Name::new("by session").unwrap(), by: 7.into() })
}

/// A filter that a field equals this value.
pub fn is(field: &str, value: &str) -> Where {
    let test = Test::Eq(value.as_bytes().to_vec());
    Where { field: Field::new(field).unwrap(), test }
}

fn fields(of: &[(&str, &str)]) -> Fields {
    Fields::of(of.iter().copied()).unwrap()
}

pub fn before_the_tag(db: &Database, clock: &ManualClock) {
    let cells = db.cells();
    for limit in [10, 20] {
        cells.set("config/limit", limit).unwrap();
    }
    for (name, value) in super::verify::values() {
        cells.set(name, value).unwrap();
    }
    cells.set("gone", 1).unwrap();
    cells.set_with("expires/soon", "brief", Ttl::Millis(600_000)).unwrap();
    cells.set_with("expires/late", "lasting", Ttl::Millis(30 * 86_400_000)).unwrap();
    cells.set("scratch/a", "kept for a month").unwrap();
    db.execute(with_request()).unwrap();

    let records = db.records();
    records.add_index("order:", &["status"]).unwrap();
    records.put("order:1", &fields(&[("status", "new"), ("total", "12.50")]), None).unwrap();
    records.put("order:2", &fields(&[("status", "new"), ("total", "3")]), None).unwrap();
    records.put("order:3", &fields(&[("status", "paid")]), None).unwrap();
    let mut bytes = Fields::default();
    bytes.insert(Field::new([0, 255, b'\n']).unwrap(), vec![0, 1, 2, 254, 255]);
    records.put("blob", &bytes, Some(Ttl::Millis(86_400_000))).unwrap();

    let runs = db.runs();
    let metadata = Value::from_json(r#"{"tenant":"acme","price":1.50}"#).unwrap();
    runs.bootstrap("run-1", metadata, vec![]).unwrap();
    let event = |kind: &str| NewEvent::new("run-1", kind).plan("1");
    runs.append(event("RunStarted")).unwrap();
    runs.append(event("StepStarted").step("fetch").attempt(1)).unwrap();
    let paid = NewEvent::new("run-1", "Paid").with_key("payment-7");
    runs.append(
        paid.data(r#"{"amount":1.50,"huge":123456789012345678901234567890}"#)
            .message("mail", "receipt"),
    )
    .unwrap();
    runs.append(NewEvent::new("deleted", "RunStarted").plan("1")).unwrap();
    db.outbox().put("audit", b"\x00\x01".to_vec(), None).unwrap();

    let totals = totals(db);
    totals
        .write(vec![
            StateWrite::put("a", "1", 10),
            StateWrite::put("b", "2", 11),
            StateWrite::append("log", "1", "first"),
            StateWrite::advance("orders", 11),
        ])
        .unwrap();
    let windows = db.keyed("windows").unwrap();
    windows.declare(SpaceOptions::default().ordered().groups(16)).unwrap();
    let time = |epoch: u64| LogicalTime::new(epoch, 0);
    windows.put("w", "at 5", time(5)).unwrap();
    windows.put("w", "at 9", time(9)).unwrap();
    windows.seal(time(6)).unwrap();

    let jobs = jobs(db);
    jobs.submit(&Submission::new("email", "1").params("to: a@b.c").priority(3)).unwrap();
    jobs.submit(&Submission::new("report", "1").depends_on_job("email", "1")).unwrap();

    let session =
        db.sessions().open(SessionOptions::new().name("client-1").lease(10 * MINUTE)).unwrap();
    session.execute(1, 1, in_session()).unwrap();
    db.tag("first", "main", At::Latest).unwrap();
    clock.advance(MINUTE);
}

pub fn after_the_tag(db: &Database, clock: &ManualClock) {
    let cells = db.cells();
    cells.cas("config/limit", Some(2), "thirty").unwrap();
    cells.delete("gone").unwrap();

    let records = db.records();
    let pay = RecordWrite::to("order:1").unwrap().when_field("status", "new").unwrap();
    records
        .write(pay.set("status", "paid").unwrap().set("token", FieldValue::Revision).unwrap())
        .unwrap();
    records.delete_when("order:2", vec![Condition::Exists]).unwrap();

    let runs = db.runs();
    let event = |kind: &str| NewEvent::new("run-1", kind).plan("1");
    runs.append(event("StepCompleted").step("fetch").attempt(1).message("mail", "done")).unwrap();
    // A late result of an attempt that never started. The run keeps the event and is marked
    // inconsistent.
    runs.append(event("StepCompleted").step("fetch").attempt(9)).unwrap();
    runs.keep("run-1", "count", 1, 4, Value::Int(4)).unwrap();
    runs.delete("deleted").unwrap();
    let archived = |kind: &str| NewEvent::new("archived", kind).plan("2");
    runs.append(archived("RunStarted")).unwrap();
    runs.append(archived("RunCompleted").data(r#"{"total":1E2}"#)).unwrap();

    let outbox = db.outbox();
    let first = outbox.claim(1, MINUTE).unwrap();
    outbox.fail(first[0].id, "no such mailbox", MINUTE, 1).unwrap();

    let totals = totals(db);
    totals
        .write(vec![
            StateWrite::put("a", "3", 12),
            StateWrite::delete("b", 13),
            StateWrite::append("log", "2", "second"),
            StateWrite::advance("orders", 13),
        ])
        .unwrap();

    let jobs = jobs(db);
    let claimed = jobs.claim("email", "worker 1", None).unwrap().unwrap();
    jobs.complete(&claimed.grant, Some(b"sent")).unwrap();
    jobs.submit(&Submission::new("email", "2").max_retries(0)).unwrap();
    let claimed = jobs.claim("email", "worker 2", None).unwrap().unwrap();
    jobs.fail(&claimed.grant, "no such address", Retry::Now).unwrap();

    db.sessions().send("client-1", "stop").unwrap();

    db.fork("side", "main", At::Latest).unwrap();
    let side = db.branch("side").unwrap();
    side.cells().set("config/limit", 99).unwrap();
    side.runs()
        .append(
            NewEvent::new("run-1", "Noted").with_key("side note").message("mail", "from the side"),
        )
        .unwrap();
    db.fork("past", "main", At::Revision(5)).unwrap();
    db.fork("merged", "main", At::Latest).unwrap();
    db.branch("merged").unwrap().cells().set("from merged", true).unwrap();
    db.merge("merged", "main", MergeStrategy::Strict).unwrap();
    db.fork("dropped", "main", At::Latest).unwrap();
    db.branch("dropped").unwrap().cells().set("never", "seen again").unwrap();
    db.delete_branch("dropped").unwrap();
    db.tag("dropped", "main", At::Latest).unwrap();
    db.untag("dropped").unwrap();
    clock.advance(MINUTE);
}

/// A write after the archive took the run: exports and increments must record the run's deletion.
pub fn after_the_archive(db: &Database) {
    db.cells().set("last", "written").unwrap();
}

//! Verifies the state of the fixtures. All expectations are written by hand.

use super::world;
use mainstay::{
    At, Branch, Cells, Code, Contract, Database, Keyed, KeyedState, LogicalTime, NewEvent,
    OutboxState, RunStatus, SessionOptions, StepStatus, Value, Wrote,
};
use mainstay_jobs::{JobName, State};

/// Cells with each kind of value.
pub fn values() -> Vec<(&'static str, Value)> {
    let list = vec![Value::Null, 1.into(), "two".into()];
    let object = [("b".to_owned(), Value::Bool(false)), ("a".to_owned(), Value::Array(list))];
    vec![
        ("value/null", Value::Null),
        ("value/bool", Value::Bool(true)),
        ("value/int", Value::Int(i64::MIN)),
        ("value/float", Value::Float(-0.0)),
        ("value/text", "grüße, 世界".into()),
        ("value/bytes", Value::Bytes(vec![0, 159, 146, 150, 255])),
        ("value/object", Value::Object(object.into())),
        ("value/large", "x".repeat(20_000).into()),
    ]
}

/// Verifies all branches, currently and at the tag.
pub fn database(db: &Database) {
    branches(db);
    branch(db, "main");
    at_the_tag(db, "main", At::Revision(tag(db, "first")));
    side_branch(db);
    outbox(db);
    sessions(db);
    jobs(db);
    requests(db);
    assert!(db.runs().get("archived").unwrap().is_none(), "the archive has it");
    let late = NewEvent::new("archived", "Late").with_key("late");
    assert_eq!(db.runs().append(late).unwrap_err().code(), Code::RunNotFound);
}

fn tag(db: &Database, name: &str) -> u64 {
    let tags = db.tags();
    assert_eq!(tags.len(), 1);
    assert_eq!((tags[0].name.as_str(), tags[0].branch.as_str()), (name, "main"));
    tags[0].revision
}

fn branches(db: &Database) {
    let branches = db.branches();
    let mut found: Vec<_> =
        branches.iter().map(|branch| (branch.name.clone(), branch.parent.clone())).collect();
    found.sort();
    let main = Some("main".to_owned());
    let forks = ["merged", "past", "side"].map(|name| (name.to_owned(), main.clone()));
    assert_eq!(found, [&[("main".to_owned(), None)][..], &forks].concat());
    let past = db.branch_info("past").unwrap();
    assert_eq!(past.fork_revision, 5);
    let past = db.branch("past").unwrap();
    assert_eq!(past.cells().get("config/limit").unwrap(), Some(20.into()));
    assert!(past.records().get("order:1").unwrap().is_none());
}

/// Verifies the current state of `main`, or of a branch that its export was imported to.
pub fn branch(db: &Database, name: &str) {
    let branch = db.branch(name).unwrap();
    cells(&branch.cells());
    records(&branch);
    runs(&branch);
    last_totals(&branch.keyed("totals").unwrap());
    windows(&branch.keyed("windows").unwrap());
}

fn cells(cells: &Cells) {
    for (name, value) in values() {
        let found = cells.get(name).unwrap().unwrap();
        // Zero and minus zero compare equal as floats, but their texts differ.
        assert_eq!((found.to_json(), &found), (value.to_json(), &value), "{name}");
    }
    let limit = cells.get_versioned("config/limit").unwrap().unwrap();
    assert_eq!((limit.value, limit.counter), ("thirty".into(), 3));
    let history = cells.history("config/limit", 10, None).unwrap();
    let past: Vec<_> = history.into_iter().map(|entry| entry.value.unwrap()).collect();
    assert_eq!(past, ["thirty".into(), 20.into(), Value::from(10)]);
    let gone = cells.history("gone", 10, None).unwrap();
    let past: Vec<_> = gone.into_iter().map(|entry| (entry.counter, entry.value)).collect();
    assert_eq!(past, [(2, None), (1, Some(1.into()))]);
    for absent in ["gone", "expires/soon", "never"] {
        assert_eq!(cells.get(absent).unwrap(), None, "{absent}");
    }
    let lasting = cells.get_versioned("expires/late").unwrap().unwrap();
    assert_eq!(lasting.value, "lasting".into());
    assert_eq!(lasting.expires.map(|at| at / 86_400_000_000), Some(20_763 + 30));
    assert_eq!(cells.get("from merged").unwrap(), Some(true.into()));
    assert_eq!(cells.get("scratch/a").unwrap(), Some("kept for a month".into()));
    assert_eq!(cells.get("by request").unwrap(), Some(5.into()));
    assert_eq!(cells.get("by session").unwrap(), Some(7.into()));
    assert_eq!(cells.get("last").unwrap(), Some("written".into()));
    let page = cells.list("value/", None, 100).unwrap();
    assert_eq!(page.names.len(), 8);
}

fn records(branch: &Branch) {
    let records = branch.records();
    let order = records.get("order:1").unwrap().unwrap();
    let text = |field: &str| order.fields.text(field).map(str::to_owned);
    assert_eq!(text("status").as_deref(), Some("paid"));
    assert_eq!(text("total").as_deref(), Some("12.50"));
    assert!(text("token").unwrap().parse::<u64>().unwrap() > 0);
    assert_eq!((order.counter, order.fields.len()), (2, 3));
    assert!(records.get("order:2").unwrap().is_none());
    let before: Vec<_> = records.history("order:1", 10, None).unwrap();
    let status = |at: usize| before[at].fields.as_ref().and_then(|it| it.text("status"));
    assert_eq!((before.len(), status(0), status(1)), (2, Some("paid"), Some("new")));
    let blob = records.get("blob").unwrap().unwrap();
    assert_eq!(blob.fields.get([0, 255, b'\n']), Some(&[0, 1, 2, 254, 255][..]));
    assert!(blob.expires.is_some());
    assert_eq!(records.count("order:", &[]).unwrap(), 2);
    let paid = [world::is("status", "paid")];
    assert_eq!(records.count("order:", &paid).unwrap(), 2);
}

/// The declared index exists, and a query by its field uses it.
fn indexes(db: &Database) {
    let indexes = db.records().indexes().unwrap();
    let ours: Vec<_> = indexes.iter().filter(|index| index.prefix == "order:").collect();
    assert_eq!(ours.len(), 1);
    let plan = db.records().explain("order:", &[world::is("status", "paid")]).unwrap();
    assert!(plan.contains("index"), "{plan}");
}

fn runs(branch: &Branch) {
    let runs = branch.runs();
    let info = runs.get("run-1").unwrap().unwrap();
    assert_eq!(info.status, RunStatus::Running);
    assert_eq!((info.last_event_seq, info.inconsistent), (5, true));
    let metadata = info.metadata.unwrap().to_json();
    assert_eq!(metadata, r#"{"price":1.5,"tenant":"acme"}"#);
    let events = runs.fetch("run-1", 0, 100).unwrap();
    let types: Vec<_> = events.iter().map(|event| event.event_type.as_str()).collect();
    let expected = ["RunStarted", "StepStarted", "Paid", "StepCompleted", "StepCompleted"];
    assert_eq!(types, expected);
    let paid = &events[2];
    assert_eq!((paid.run_seq, paid.idempotency_key.as_str()), (3, "payment-7"));
    let data = r#"{"amount":1.50,"huge":123456789012345678901234567890}"#;
    assert_eq!(paid.event_data.to_json(), data);
    let snapshot = runs.snapshot("run-1").unwrap().unwrap();
    assert_eq!(snapshot, runs.project("run-1").unwrap().unwrap());
    assert_eq!(snapshot.steps["fetch"].status, StepStatus::Success);
    assert!(snapshot.flags.contains("INCONSISTENT"));
    let alerts = runs.alerts("run-1", 0, 10).unwrap();
    assert_eq!(alerts.iter().map(|alert| alert.run_seq).collect::<Vec<_>>(), [5]);
    // The idempotency key is remembered, so this is the same event.
    let again = NewEvent::new("run-1", "Paid").with_key("payment-7").data(data);
    let again = runs.append(again.message("mail", "receipt")).unwrap();
    assert_eq!((again.run_seq, again.idempotent), (3, true));
    assert!(runs.get("deleted").unwrap().is_none());
    let late = NewEvent::new("deleted", "Late").with_key("late");
    assert_eq!(runs.append(late).unwrap_err().code(), Code::RunNotFound);
}

/// Verifies the archived run after its import.
pub fn archived_run(db: &Database) {
    let runs = db.runs();
    assert_eq!(runs.get("archived").unwrap().unwrap().status, RunStatus::Completed);
    let events = runs.fetch("archived", 0, 10).unwrap();
    assert_eq!(events.len(), 2);
    assert_eq!(events[1].event_data.to_json(), r#"{"total":1E2}"#);
}

/// Verifies the space `totals` at the tag.
pub fn first_totals(totals: &dyn KeyedState) {
    let state = |key: &[u8]| totals.get(key).unwrap().map(|it| (it.value, it.version.to_string()));
    assert_eq!(state(b"a"), Some((b"1".to_vec(), "10".to_owned())));
    assert_eq!(state(b"b"), Some((b"2".to_vec(), "11".to_owned())));
    assert_eq!(items(totals), ["first"]);
    assert_eq!(totals.positions().unwrap(), [("orders".to_owned(), 11)].into());
}

/// Verifies the current state of the space `totals`.
pub fn last_totals(totals: &dyn KeyedState) {
    let state = |key: &[u8]| totals.get(key).unwrap().map(|it| (it.value, it.version.to_string()));
    assert_eq!(state(b"a"), Some((b"3".to_vec(), "12".to_owned())));
    assert_eq!(state(b"b"), None);
    assert_eq!(items(totals), ["first", "second"]);
    assert_eq!(totals.positions().unwrap(), [("orders".to_owned(), 13)].into());
    // The tombstone keeps the version of the deletion.
    assert_eq!(totals.put(b"b", b"late", 12.into()).unwrap(), Wrote::Stale);
}

fn items(totals: &dyn KeyedState) -> Vec<String> {
    let items = totals.items(b"log", None, 10).unwrap();
    items.into_iter().map(|item| String::from_utf8(item.item).unwrap()).collect()
}

fn windows(windows: &Keyed) {
    let info = windows.info().unwrap().unwrap();
    assert!(info.options.ordered);
    assert_eq!(info.options.groups, 16);
    assert_eq!(info.frontier, Some(LogicalTime::new(6, 0).into()));
    assert_eq!(windows.get("w").unwrap().unwrap().value, b"at 5");
    let waiting = windows.waiting(None, 10).unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].version, LogicalTime::new(9, 0).into());
}

/// Verifies `main` at the tag.
pub fn at_the_tag(db: &Database, branch: &str, at: At) {
    let branch = db.branch(branch).unwrap();
    let cells = branch.cells().at(at).unwrap();
    assert_eq!(cells.get("config/limit").unwrap(), Some(20.into()));
    assert_eq!(cells.get("gone").unwrap(), Some(1.into()));
    // A read at the tag judges expiry at the tag's time; a read of the newest state uses the current
    // time.
    let brief = (at != At::Latest).then(|| "brief".into());
    assert_eq!(cells.get("expires/soon").unwrap(), brief);
    let records = cells.records();
    let order = records.get("order:1").unwrap().unwrap();
    assert_eq!((order.fields.text("status"), order.counter), (Some("new"), 1));
    assert_eq!(records.count("order:", &[world::is("status", "new")]).unwrap(), 2);
    let runs = cells.runs();
    assert_eq!(runs.get("run-1").unwrap().unwrap().last_event_seq, 3);
    assert_eq!(runs.fetch("deleted", 0, 10).unwrap().len(), 1);
    let totals = branch.keyed("totals").unwrap().at(at).unwrap();
    assert_eq!(totals.get("a").unwrap().unwrap().value, b"1");
    assert_eq!(totals.positions().unwrap(), [("orders".to_owned(), 11)]);
}

fn side_branch(db: &Database) {
    let side = db.branch("side").unwrap();
    assert_eq!(side.cells().get("config/limit").unwrap(), Some(99.into()));
    assert_eq!(side.runs().get("run-1").unwrap().unwrap().last_event_seq, 6);
    let differences = db.diff("main", "side").unwrap();
    let of = |contract| differences.iter().filter(move |it| it.contract == contract);
    let cells: Vec<_> = of(Contract::Cells).map(|it| (it.key.as_str(), it.b.clone())).collect();
    assert!(cells.contains(&("config/limit", Some(99.into()))), "{cells:?}");
    assert_eq!(of(Contract::Runs).filter(|it| it.key == "run-1").count(), 1);
}

fn outbox(db: &Database) {
    let outbox = db.outbox();
    let OutboxState { pending, dead, .. } = outbox.state().unwrap();
    assert_eq!((pending, dead), (2, 1), "the side branch's message is its own");
    let dead = outbox.dead(0, 10).unwrap();
    assert_eq!((dead[0].subject.as_str(), dead[0].payload.as_slice()), ("mail", &b"receipt"[..]));
    assert_eq!(dead[0].failure.as_deref(), Some("no such mailbox"));
    assert_eq!((dead[0].run.as_deref(), dead[0].tries), (Some("run-1"), 1));
}

fn sessions(db: &Database) {
    let session = db.sessions().open(SessionOptions::new().name("client-1")).unwrap();
    assert!(!session.is_new());
    assert_eq!(session.info().lease_ms, 600_000);
    assert_eq!(session.pending(0, 10).unwrap(), [(1, b"stop".to_vec())]);
    let again = session.execute(1, 1, world::in_session()).unwrap();
    assert!(again.repeated);
    assert_eq!(db.cells().get("by session").unwrap(), Some(7.into()));
}

fn jobs(db: &Database) {
    indexes(db);
    let jobs = world::jobs(db);
    let get = |task_type: &str, id: &str| {
        jobs.get(&JobName::new(task_type, id).unwrap()).unwrap().unwrap()
    };
    let sent = get("email", "1");
    assert_eq!((sent.state, sent.priority), (State::Completed, 3));
    assert_eq!(jobs.params(&sent).unwrap().as_deref(), Some(&b"to: a@b.c"[..]));
    assert_eq!(jobs.result(&sent).unwrap().as_deref(), Some(&b"sent"[..]));
    assert_eq!(get("report", "1").state, State::Pending, "what it waited for is done");
    let failed = get("email", "2");
    assert_eq!((failed.state, failed.error.as_deref()), (State::Failed, Some("no such address")));
    assert_eq!(jobs.count("email", State::Completed).unwrap(), 1);
}

fn requests(db: &Database) {
    assert!(db.execute(world::with_request()).unwrap().repeated);
    assert_eq!(db.cells().get("by request").unwrap(), Some(5.into()));
}

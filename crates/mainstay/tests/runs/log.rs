//! Append, fetch, tail and snapshots of runs.

use crate::{event, memory, note};
use mainstay::{
    At, ChangeKind, Code, Command, Contract, Demand, ErrorKind, Filter, NewEvent, OutboxCommand,
    RunCommand, RunFilter, RunStatus, Step, Transaction, Value,
};
use std::time::Duration;

#[test]
fn sequences_rise_by_one_and_a_key_is_one_event() {
    let (db, _) = memory();
    let runs = db.runs();
    for seq in 1..=3 {
        let appended = runs.append(note("r", seq)).unwrap();
        assert_eq!((appended.run_seq, appended.persisted), (seq, true));
    }
    let again = runs.append(note("r", 2)).unwrap();
    assert_eq!((again.run_seq, again.idempotent, again.persisted), (2, true, false));
    assert!(!again.conflict);
    let other = runs.append(note("r", 2).value("else")).unwrap();
    assert_eq!((other.run_seq, other.conflict, other.persisted), (2, true, false));
    assert_eq!(other.event_id, again.event_id);
    let events = runs.fetch("r", 0, 100).unwrap();
    assert_eq!(events.iter().map(|event| event.run_seq).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(events[1].event_data, Value::from(2));
    assert_eq!(events[1].persisted_at.as_ref(), Some(&again.persisted_at));
}

#[test]
fn a_batch_is_all_or_nothing_and_expecting_is_a_condition() {
    let (db, _) = memory();
    let runs = db.runs();
    let bad = vec![note("r", 1), NewEvent::new("r", "StepStarted").plan("1"), note("r", 2)];
    assert_eq!(runs.append_batch(bad).unwrap_err().position(), Some(1));
    assert!(runs.fetch("r", 0, 9).unwrap().is_empty());
    let all = runs.append_batch(vec![note("r", 1), note("r", 1), note("s", 1)]).unwrap();
    let seen: Vec<_> = all.iter().map(|one| (one.run_seq, one.idempotent)).collect();
    assert_eq!(seen, [(1, false), (1, true), (1, false)]);
    assert_eq!(runs.append_expecting(note("r", 2), 1).unwrap().run_seq, 2);
    let moved = runs.append_expecting(note("r", 3), 1).unwrap_err();
    assert_eq!(moved.code(), Code::SequenceMoved);
    // A repeated event is found, whatever the current end of the run.
    assert_eq!(runs.append_expecting(note("r", 2), 1).unwrap().run_seq, 2);
    assert_eq!(runs.append_expecting(note("new", 1), 0).unwrap().run_seq, 1);
}

#[test]
fn a_run_is_made_once_and_what_is_deleted_stays_so() {
    let (db, _) = memory();
    let runs = db.runs();
    let first = vec![event("", "RunStarted", None), event("b", "StepStarted", Some("s"))];
    let all = runs.bootstrap("b", Value::from("about it"), first).unwrap();
    assert_eq!(all.iter().map(|one| one.run_seq).collect::<Vec<_>>(), [1, 2]);
    let info = runs.get("b").unwrap().unwrap();
    assert_eq!((info.status, info.metadata), (RunStatus::Running, Some("about it".into())));
    let twice = runs.bootstrap("b", Value::Null, Vec::new()).unwrap_err();
    assert_eq!(twice.code(), Code::RunExists);
    assert!(runs.delete("b").unwrap());
    assert!(!runs.delete("b").unwrap());
    assert_eq!(runs.append(note("b", 1)).unwrap_err().code(), Code::RunNotFound);
    let again = runs.bootstrap("b", Value::Null, Vec::new()).unwrap_err();
    assert_eq!(again.code(), Code::RunNotFound);
    assert!(runs.fetch("b", 0, 9).unwrap().is_empty());
    assert!(runs.snapshot("b").unwrap().is_none());
}

#[test]
fn snapshots_are_never_behind_and_equal_a_projection() {
    let (db, _) = memory();
    let runs = db.runs();
    runs.append(event("r", "RunStarted", None)).unwrap();
    for i in 0..700_u64 {
        let step = format!("step-{}", i % 40);
        let kind = ["StepStarted", "StepFailed", "StepRetried", "Noted"][(i / 40 % 4) as usize];
        let event = NewEvent::new("r", kind).step(&step).with_key(&format!("{i}"));
        assert_eq!(runs.append(event).unwrap().run_seq, i + 2);
        if i % 97 == 0 || i > 690 {
            let kept = runs.snapshot("r").unwrap().unwrap();
            let whole = runs.project("r").unwrap();
            assert_eq!(kept.last_event_seq, i + 2);
            assert_eq!(Some(kept.hash()), whole.map(|whole| whole.hash()));
        }
    }
    for seq in [0, 1, 255, 256, 257, 511, 512, 640, 701] {
        let then = runs.snapshot_at("r", seq).unwrap().unwrap();
        let mut folded = mainstay::RunSnapshot::new("r");
        for event in runs.fetch("r", 0, 1000).unwrap().iter().take(seq as usize) {
            mainstay::reduce(&mut folded, event);
        }
        assert_eq!(then.hash(), folded.hash(), "at {seq}");
    }
    assert!(runs.snapshot_at("r", 702).unwrap().is_none());
}

#[test]
fn what_cannot_follow_is_told_once() {
    let (db, _) = memory();
    let runs = db.runs();
    let mut feed = db.watch(Filter::default(), db.revision()).unwrap();
    runs.append(event("r", "RunStarted", None)).unwrap();
    runs.append(event("r", "StepCompleted", Some("never begun"))).unwrap();
    runs.append(event("r", "StepCompleted", Some("never begun"))).unwrap();
    for _ in 0..3 {
        assert!(runs.project("r").unwrap().unwrap().is_inconsistent());
        assert!(runs.snapshot("r").unwrap().unwrap().is_inconsistent());
    }
    let alerts = runs.alerts("r", 0, 10).unwrap();
    assert_eq!(alerts.iter().map(|alert| alert.run_seq).collect::<Vec<_>>(), [2]);
    assert!(alerts[0].message.contains("never begun"), "{}", alerts[0].message);
    db.sync().unwrap();
    let mut kinds = Vec::new();
    while let Some(event) = feed.next(Duration::ZERO).unwrap() {
        assert_eq!((event.contract, event.key.as_str()), (Contract::Runs, "r"));
        kinds.push((event.kind, event.counter));
    }
    let appended = ChangeKind::Appended;
    assert_eq!(kinds, [(appended, 1), (appended, 2), (ChangeKind::Alerted, 2)]);
}

#[test]
fn a_tail_wakes_when_something_is_appended() {
    let (db, _) = memory();
    let mut tail = db.runs().tail("r", 0).unwrap();
    let writer = {
        let db = db.clone();
        std::thread::spawn(move || {
            for seq in 1..=50 {
                db.runs().append(note("r", seq)).unwrap();
                db.sync().unwrap();
            }
        })
    };
    let mut seen = Vec::new();
    while seen.len() < 50 {
        let events = tail.next(7, Duration::from_secs(60)).unwrap();
        assert!((1..=7).contains(&events.len()));
        seen.extend(events.into_iter().map(|event| event.run_seq));
    }
    writer.join().unwrap();
    assert_eq!(seen, (1..=50).collect::<Vec<_>>());
    assert!(tail.next(1, Duration::ZERO).unwrap().is_empty());
}

/// A synced event becomes visible a moment later. A reader in between must not wait for the next event.
#[test]
fn no_event_is_missed_when_each_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let db = mainstay::Database::open(directory.path()).unwrap();
    let (ask, asked) = std::sync::mpsc::channel();
    let mut tail = db.runs().tail("r", 0).unwrap();
    let writer = std::thread::spawn(move || {
        for seq in asked {
            db.runs().append(note("r", seq)).unwrap();
        }
    });
    for seq in 1..=2000 {
        ask.send(seq).unwrap();
        let events = tail.next(7, Duration::from_secs(30)).unwrap();
        assert_eq!(events.iter().map(|event| event.run_seq).collect::<Vec<_>>(), [seq]);
    }
    drop(ask);
    writer.join().unwrap();
}

#[test]
fn a_tail_of_a_fork_shows_no_more_of_its_parent_than_is_on_stable_storage() {
    let directory = tempfile::tempdir().unwrap();
    let options = mainstay::Options::new().durability(mainstay::Durability::Memory);
    let db = options.open(directory.path()).unwrap();
    db.sync().unwrap();
    db.runs().append(note("r", 1)).unwrap();
    db.fork("side", "main", mainstay::At::Latest).unwrap();
    let mut tail = db.branch("side").unwrap().runs().tail("r", 0).unwrap();
    assert!(tail.next(9, Duration::ZERO).unwrap().is_empty());
    db.sync().unwrap();
    assert_eq!(tail.next(9, Duration::ZERO).unwrap().len(), 1);
}

#[test]
fn a_batch_with_an_event_that_does_not_fit_leaves_nothing_behind() {
    let (db, _) = memory();
    let half = "x".repeat(mainstay::limits::VALUE_LIMIT_BYTES / 2);
    let mut large = note("r", 2).value(half.as_str());
    large.more.insert("more".to_owned(), half.into());
    let run = mainstay::Name::new("r").unwrap();
    let metadata = Value::Null;
    let events = vec![note("r", 1), large.clone()];
    let bootstrap = RunCommand::Bootstrap { run, metadata, events };
    let receipt = db.execute(Transaction::new().attempt(bootstrap)).unwrap();
    let refused = |answer: &mainstay::Answer| match answer {
        mainstay::Answer::Failed(error) => error.code() == Code::ValueTooLarge,
        _ => false,
    };
    assert!(refused(&receipt.answers[0]), "{:?}", receipt.answers);
    assert_eq!(db.runs().get("r").unwrap(), None);
    let error = db.runs().append_batch(vec![note("r", 1), large]).unwrap_err();
    assert_eq!((error.code(), error.position()), (Code::ValueTooLarge, Some(1)));
    assert_eq!(db.runs().get("r").unwrap(), None);
}

#[test]
fn a_tail_shows_only_what_is_on_stable_storage() {
    let directory = tempfile::tempdir().unwrap();
    let options = mainstay::Options::new().durability(mainstay::Durability::Memory);
    let db = options.open(directory.path()).unwrap();
    let mut tail = db.runs().tail("r", 0).unwrap();
    db.runs().append(note("r", 1)).unwrap();
    assert_eq!(db.runs().fetch("r", 0, 9).unwrap().len(), 1);
    assert!(tail.next(9, Duration::ZERO).unwrap().is_empty());
    db.sync().unwrap();
    assert_eq!(tail.next(9, Duration::ZERO).unwrap().len(), 1);
}

#[test]
fn lists_filter_by_status_time_and_prefix() {
    let (db, clock) = memory();
    let runs = db.runs();
    let mut stamps = Vec::new();
    for run in ["a/1", "a/2", "b/1"] {
        clock.advance(Duration::from_secs(10));
        runs.append(event(run, "RunStarted", None)).unwrap();
        stamps.push(runs.get(run).unwrap().unwrap().created);
    }
    clock.advance(Duration::from_secs(10));
    runs.append(event("a/1", "RunCompleted", None)).unwrap();
    let names = |filter: &RunFilter| {
        let page = runs.list(filter, None, 10).unwrap();
        page.runs.into_iter().map(|run| run.run_id).collect::<Vec<_>>()
    };
    assert_eq!(names(&RunFilter::default()), ["a/1", "a/2", "b/1"]);
    assert_eq!(names(&RunFilter::of("a/")), ["a/1", "a/2"]);
    assert_eq!(names(&RunFilter::of("").status(RunStatus::Completed)), ["a/1"]);
    let from = RunFilter { created_from: Some(stamps[1]), ..RunFilter::default() };
    assert_eq!(names(&from), ["a/2", "b/1"]);
    let before = RunFilter { created_before: Some(stamps[1]), ..RunFilter::default() };
    assert_eq!(names(&before), ["a/1"]);
    let updated = RunFilter { updated_from: Some(stamps[2] + 1), ..RunFilter::default() };
    assert_eq!(names(&updated), ["a/1"]);
    let page = runs.list(&RunFilter::default(), None, 2).unwrap();
    assert_eq!(page.next.as_deref(), Some("a/2"));
    let rest = runs.list(&RunFilter::default(), page.next.as_deref(), 2).unwrap();
    assert_eq!((rest.runs.len(), rest.next), (1, None));
}

#[test]
fn one_transaction_spans_runs_cells_and_the_outbox() {
    let (db, _) = memory();
    let failed = db.transaction(|t| {
        t.append(note("r", 1))?;
        t.set("cell", 1)?;
        t.put_message("subject", "payload", Some("r"))?;
        Err::<(), _>(mainstay::Error::new(Code::InvalidArgument, "no"))
    });
    assert!(failed.is_err());
    assert!(db.runs().get("r").unwrap().is_none());
    assert_eq!(db.outbox().state().unwrap().pending, 0);
    db.transaction(|t| {
        assert_eq!(t.append(note("r", 1))?.run_seq, 1);
        assert_eq!(t.append(note("r", 2))?.run_seq, 2);
        assert_eq!(t.append(note("r", 1))?.run_seq, 1);
        assert_eq!(t.fetch_events("r", 0, 9)?.len(), 2);
        assert_eq!(t.run_snapshot("r")?.map(|run| run.last_event_seq), Some(2));
        t.put_message("subject", "payload", Some("r")).map(drop)
    })
    .unwrap();
    assert_eq!(db.runs().fetch("r", 0, 9).unwrap().len(), 2);
    assert_eq!(db.outbox().state().unwrap().pending, 1);
}

#[test]
fn what_was_read_of_a_run_is_a_guard() {
    let (db, _) = memory();
    db.runs().append(note("r", 1)).unwrap();
    let mut t = db.begin().unwrap();
    assert_eq!(t.fetch_events("r", 0, 9).unwrap().len(), 1);
    t.set("seen", 1).unwrap();
    db.runs().append(note("r", 2)).unwrap();
    assert_eq!(t.commit().unwrap_err().code(), Code::Conflict);
    // An append conflicts only with an append of the same event.
    let mut t = db.begin().unwrap();
    t.append(note("r", 3)).unwrap();
    db.runs().append(note("r", 4)).unwrap();
    t.commit().unwrap();
    let mut t = db.begin().unwrap();
    assert!(t.append(note("r", 5)).unwrap().persisted);
    db.runs().append(note("r", 5)).unwrap();
    assert_eq!(t.commit().unwrap_err().code(), Code::Conflict);
    assert_eq!(db.runs().fetch("r", 0, 9).unwrap().len(), 5);
    // A list must conflict with new runs, too.
    let mut t = db.begin().unwrap();
    let list = RunCommand::List { filter: RunFilter::default(), after: None, limit: 9 };
    t.run(list).unwrap();
    t.set("seen", 2).unwrap();
    db.runs().append(note("s", 1)).unwrap();
    assert_eq!(t.commit().unwrap_err().code(), Code::Conflict);
}

#[test]
fn a_command_that_fails_has_written_nothing() {
    let (db, _) = memory();
    let too_large = NewEvent::new("r", "Big").with_key("k").value(Value::Bytes(vec![0; 17 << 20]));
    let steps: Vec<Command> = vec![
        RunCommand::Append { event: Box::new(note("r", 1)), expected: Some(7) }.into(),
        RunCommand::Append { event: Box::new(too_large), expected: None }.into(),
        RunCommand::Append { event: Box::new(NewEvent::new("r", "StepX")), expected: None }.into(),
        OutboxCommand::Put { subject: String::new(), payload: Vec::new(), run: None }.into(),
        RunCommand::Append { event: Box::new(note("r", 2)), expected: Some(0) }.into(),
    ];
    let mut transaction = Transaction::new();
    transaction
        .steps
        .extend(steps.into_iter().map(|command| Step { command, demand: Demand::Nothing }));
    let receipt = db.execute(transaction).unwrap();
    let which: Vec<bool> = receipt
        .answers
        .iter()
        .map(|answer| matches!(answer, mainstay::Answer::Failed(_)))
        .collect();
    assert_eq!(which, [true, true, true, true, false]);
    assert_eq!(db.runs().fetch("r", 0, 9).unwrap().len(), 1);
}

#[test]
fn bad_input_is_refused_and_the_log_stays_as_it_is() {
    let (db, _) = memory();
    let runs = db.runs();
    runs.append(note("r", 1)).unwrap();
    let bad = [
        NewEvent::new("r", "StepStarted").plan("1"),
        NewEvent::new("r|x", "RunStarted").plan("1"),
        NewEvent::new("r", "StepStarted").step("a|b").plan("1"),
        NewEvent::new("r", "RunStarted"),
        NewEvent::new("", "RunStarted").plan("1"),
        NewEvent::new("r", "").plan("1"),
        NewEvent::new("r", "RunStarted").with_key(""),
        NewEvent::new("r", "RunStarted").with_key(&"k".repeat(1025)),
    ];
    for event in bad {
        assert!(runs.append(event.clone()).is_err(), "{event:?}");
    }
    for limit in [0, 100_001] {
        assert_eq!(runs.fetch("r", 0, limit).unwrap_err().code(), Code::InvalidLimit);
    }
    assert!(runs.fetch("unknown", 0, 9).unwrap().is_empty());
    assert!(runs.fetch("r", u64::MAX, 9).unwrap().is_empty());
    assert_eq!(runs.fetch("r", 0, 9).unwrap().len(), 1);
}

#[test]
fn a_run_is_not_made_and_deleted_in_one_transaction() {
    let (db, _) = memory();
    let run = || mainstay::Name::new("r").unwrap();
    let append = |number| RunCommand::Append { event: Box::new(note("r", number)), expected: None };
    let both = || Transaction::new().step(append(1)).step(RunCommand::Delete { run: run() });
    assert_eq!(db.execute(both()).unwrap_err().code(), Code::InvalidArgument);
    db.execute(Transaction::new().step(append(1))).unwrap();
    db.execute(both()).unwrap();
    assert!(db.runs().get("r").unwrap().is_none());
}

#[test]
fn a_tail_gives_fewer_events_where_so_many_are_too_large_for_one_answer() {
    let (db, _) = memory();
    for number in 1..=10 {
        let large = Value::Bytes(vec![7; 15 << 20]);
        db.runs().append(note("r", number).value(large)).unwrap();
    }
    db.sync().unwrap();
    let refused = db.runs().fetch("r", 0, 100).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    let mut tail = db.runs().tail("r", 0).unwrap();
    let mut sequences = Vec::new();
    while tail.position() < 10 {
        let some = tail.next(100, Duration::ZERO).unwrap();
        sequences.extend(some.iter().map(|event| event.run_seq));
    }
    assert_eq!(sequences, (1..=10).collect::<Vec<_>>());
}

#[test]
fn a_run_of_several_pages_is_rewound_into_the_middle_of_a_batch() {
    let (db, _) = memory();
    db.runs().append_batch((1..=2_500).map(|number| note("r", number)).collect()).unwrap();
    db.fork_at_event("again", "main", "r", 1_500).unwrap();
    let again = db.branch("again").unwrap().runs();
    assert_eq!(again.fetch("r", 0, 9_999).unwrap(), db.runs().fetch("r", 0, 1_500).unwrap());
    assert_eq!(again.append(note("r", 2_000)).unwrap().run_seq, 1_501);
    assert_eq!(db.runs().get("r").unwrap().unwrap().last_event_seq, 2_500);
}

/// Events that fit into an answer need not fit into a transaction.
#[test]
fn a_run_of_large_events_is_rewound() {
    let (db, _) = memory();
    for number in 1..=6 {
        let large = Value::Bytes(vec![7; 15 << 20]);
        db.runs().append(note("r", number).value(large)).unwrap();
    }
    db.fork("again", "main", At::Latest).unwrap();
    let again = db.branch("again").unwrap().runs();
    assert_eq!(again.rewind("r", 5).unwrap(), 1);
    assert_eq!(again.get("r").unwrap().unwrap().last_event_seq, 5);
    assert_eq!(again.project("r").unwrap(), again.snapshot("r").unwrap());
    assert_eq!(again.append(note("r", 6)).unwrap().run_seq, 6);
}

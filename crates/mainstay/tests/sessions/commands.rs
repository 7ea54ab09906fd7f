//! Commands that are alone in their transaction, or that restore something, as session requests: merges,
//! imports, restores.

use super::machine::Machine;
use super::*;
use mainstay::{
    Answer, At, BranchCommand, Code, Command, EntryBlock, ErrorKind, Fields, IndexCommand,
    MemoryFiles, MergeStrategy, NewEvent, RecordCommand, RunCommand, SpaceInfo, StateAnswer,
    StateCommand, StateWrite,
};

fn begin() -> (Machine, Database, Session) {
    let machine = Machine::with(Arc::new(MemoryFiles::new()));
    let db = machine.open();
    let session = open(&db, "s");
    (machine, db, session)
}

/// Runs a request. Each repeat must get the same answer and write nothing, also after a restart.
struct Once {
    id: u64,
    command: Command,
    first: Result<Receipt>,
}

impl Once {
    fn new(session: &Session, id: u64, command: impl Into<Command>) -> Once {
        let command = command.into();
        let first = session.execute(id, 0, Transaction::new().step(command.clone()));
        assert!(!first.as_ref().is_ok_and(|first| first.repeated));
        Once { id, command, first }
    }

    fn check(&self, db: &Database) {
        let revision = db.revision();
        let again =
            open(db, "s").execute(self.id, 0, Transaction::new().step(self.command.clone()));
        let first = self.first.clone().map(|first| Receipt { repeated: true, ..first });
        assert_eq!((again, db.revision()), (first, revision), "{:?}", self.command);
    }

    fn answer(&self) -> &Answer {
        &self.first.as_ref().unwrap().answers[0]
    }

    fn error(&self) -> mainstay::Error {
        self.first.clone().unwrap_err()
    }
}

fn merge(from: &str, into: &str, strategy: MergeStrategy) -> BranchCommand {
    BranchCommand::Merge { from: name(from), into: name(into), strategy }
}

/// Runs checks now, and after two reopens: from the log, and from the stores.
fn at_all_times(machine: &Machine, mut db: Database, look: impl Fn(&Database)) {
    look(&db);
    for trims in [false, true] {
        if trims {
            db.trim().unwrap();
        }
        drop(db);
        db = machine.open();
        look(&db);
    }
}

#[test]
fn a_merge_is_made_once() {
    let (machine, db, session) = begin();
    db.cells().set("a", 1).unwrap();
    db.fork("side", "main", At::Latest).unwrap();
    let side = db.branch("side").unwrap().cells();
    side.set("a", 2).unwrap();
    db.cells().set("a", 3).unwrap();
    let strict = Once::new(&session, 1, merge("side", "main", MergeStrategy::Strict));
    assert_eq!(strict.error().code(), Code::MergeConflict);
    assert_eq!(db.cells().get("a").unwrap(), Some(3.into()));
    let theirs = Once::new(&session, 2, merge("side", "main", MergeStrategy::Theirs));
    assert_eq!(theirs.answer(), &Answer::Revision(theirs.first.as_ref().unwrap().revision));
    // The next merge has a change to apply, and no conflict.
    side.set("a", 4).unwrap();
    drop((side, session));
    at_all_times(&machine, db, |db| {
        [&strict, &theirs].into_iter().for_each(|once| once.check(db));
        assert_eq!(db.cells().get("a").unwrap(), Some(2.into()));
    });
    let db = machine.open();
    let third = Once::new(&open(&db, "s"), 3, merge("side", "main", MergeStrategy::Strict));
    third.check(&db);
    assert_eq!(db.cells().get("a").unwrap(), Some(4.into()));
}

#[test]
fn a_merge_of_many_contracts_is_made_once() {
    let (machine, db, session) = begin();
    db.fork("side", "main", At::Latest).unwrap();
    let side = db.branch("side").unwrap();
    for index in 0..300 {
        side.cells().set(&format!("c{index}"), index).unwrap();
    }
    side.records().set_field("r", "f", "v").unwrap();
    side.runs().append(NewEvent::new("run", "RunStarted").plan("1")).unwrap();
    side.keyed("space").unwrap().write(vec![StateWrite::put("k", "v", 1)]).unwrap();
    let merged = Once::new(&session, 1, merge("side", "main", MergeStrategy::Strict));
    db.runs().append(NewEvent::new("run", "RunCompleted").plan("2")).unwrap();
    drop((side, session));
    at_all_times(&machine, db, |db| {
        merged.check(db);
        assert_eq!(db.cells().list("c", None, 1_000).unwrap().names.len(), 300);
        assert_eq!(db.records().get("r").unwrap().map(|record| record.counter), Some(1));
        assert_eq!(db.runs().fetch("run", 0, 10).unwrap().len(), 2);
        assert!(db.keyed("space").unwrap().get("k").unwrap().is_some());
    });
}

#[test]
fn branches_and_tags_come_and_go_once() {
    let (machine, db, session) = begin();
    db.cells().set("a", 1).unwrap();
    let side = || name("side");
    let tag = || name("tag");
    let commands: [BranchCommand; 6] = [
        BranchCommand::Create { name: side() },
        BranchCommand::Tag { name: tag(), branch: name("main"), at: None },
        BranchCommand::Rename { name: side(), to: name("other") },
        BranchCommand::Untag { name: tag() },
        BranchCommand::Delete { name: name("other") },
        BranchCommand::Delete { name: name("other") },
    ];
    let all: Vec<Once> =
        (1..).zip(commands).map(|(id, command)| Once::new(&session, id, command)).collect();
    assert_eq!((all[4].answer(), all[5].answer()), (&Answer::Did(true), &Answer::Did(false)));
    drop(session);
    // In any order, because none of them has an effect.
    at_all_times(&machine, db, |db| {
        all.iter().rev().for_each(|once| once.check(db));
        assert_eq!((db.branches().len(), db.tags().len()), (1, 0));
    });
}

#[test]
fn an_import_begins_and_ends_once() {
    let (machine, db, session) = begin();
    let import = |name| BranchCommand::Import { name: super::name(name) };
    let finish = |name, tags| BranchCommand::Finish { name: super::name(name), tags };
    let begun = Once::new(&session, 1, import("in"));
    let revision = begun.first.as_ref().unwrap().revision;
    assert!(db.branch("in").is_err(), "nobody sees it yet");
    begun.check(&db);
    let ended = Once::new(&session, 2, finish("in", vec![(name("tag"), revision)]));
    db.branch("in").unwrap().cells().set("a", 1).unwrap();
    let twice = Once::new(&session, 3, finish("in", vec![]));
    assert_eq!(twice.error().kind(), ErrorKind::NotFound, "{}", twice.error());
    // An unfinished import is removed when the database is opened. The request that began it keeps its
    // answer.
    let lost = Once::new(&session, 4, import("lost"));
    drop((session, db));
    let db = machine.open();
    let late = Once::new(&open(&db, "s"), 5, finish("lost", vec![]));
    assert_eq!(late.error().kind(), ErrorKind::NotFound, "{}", late.error());
    at_all_times(&machine, db, |db| {
        [&begun, &ended, &twice, &lost, &late].into_iter().for_each(|once| once.check(db));
        assert_eq!(db.branch("in").unwrap().cells().get("a").unwrap(), Some(1.into()));
        assert!(db.branch("lost").is_err());
        assert_eq!(db.tags().len(), 1);
    });
}

/// Returns a run and a space in archived form.
fn archived() -> (Vec<mainstay::CanonicalEvent>, SpaceInfo, EntryBlock) {
    let (db, _) = memory();
    for kind in ["RunStarted", "RunPaused", "RunCompleted"] {
        db.runs().append(NewEvent::new("run", kind).plan(kind)).unwrap();
    }
    let writes = (0..3).map(|i| StateWrite::put(format!("k{i}"), "v", 1)).collect();
    db.keyed("space").unwrap().write(writes).unwrap();
    let dump = StateCommand::Dump { space: name("space"), after: None, limit_bytes: 1 << 20 };
    let block = match &db.execute(Transaction::new().step(dump)).unwrap().answers[0] {
        Answer::State(answer) => match &**answer {
            StateAnswer::Entries { block, next: None } => block.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let info = db.keyed("space").unwrap().info().unwrap().unwrap();
    (db.runs().fetch("run", 0, 10).unwrap(), info, block)
}

#[test]
fn what_is_restored_is_restored_once() {
    let (machine, db, session) = begin();
    let (events, info, block) = archived();
    let space = || name("space");
    let fields = Fields::of([("f", "v")]).unwrap();
    let commands: [Command; 5] = [
        CellCommand::Restore { name: name("c"), value: Some(1.into()), counter: 7, expires: None }
            .into(),
        RecordCommand::Restore { key: name("r"), fields: Some(fields), counter: 7, expires: None }
            .into(),
        RunCommand::Restore {
            run: name("run"),
            metadata: None,
            created: None,
            events: events.clone(),
        }
        .into(),
        StateCommand::Restore {
            space: space(),
            info,
            block: block.clone(),
            begun: None,
            ends: true,
        }
        .into(),
        StateCommand::Take { space: name("taken"), info, block }.into(),
    ];
    let all: Vec<Once> =
        (1..).zip(commands).map(|(id, command)| Once::new(&session, id, command)).collect();
    let counts = all[2..].iter().map(|once| once.answer().clone());
    assert!(counts.eq([3, 3, 3].map(Answer::Count)), "{:?}", all[2].first);
    // A repeated execution would bring back data that is deleted here.
    db.cells().delete("c").unwrap();
    db.records().delete("r").unwrap();
    db.runs().delete("run").unwrap();
    db.execute(Transaction::new().step(StateCommand::Drop { space: space() })).unwrap();
    drop(session);
    at_all_times(&machine, db, |db| {
        all.iter().for_each(|once| once.check(db));
        assert_eq!(db.cells().get("c").unwrap(), None);
        assert!(db.records().get("r").unwrap().is_none());
        assert_eq!(db.runs().get("run").unwrap(), None);
        assert!(db.keyed("space").unwrap().get("k0").unwrap().is_none());
        assert!(db.keyed("taken").unwrap().get("k0").unwrap().is_some());
    });
}

#[test]
fn pieces_of_a_restore_are_requests_one_behind_the_other() {
    let (machine, db, session) = begin();
    let (events, ..) = archived();
    let piece = |events: &[_], begun, ends| RunCommand::RestoreHidden {
        run: name("run"),
        metadata: None,
        created: None,
        events: events.to_vec(),
        begun,
        ends,
    };
    let first = Once::new(&session, 1, piece(&events[..2], None, false));
    first.check(&db);
    assert_eq!(db.runs().get("run").unwrap(), None);
    // The answer has the revision of the first attempt, even for a client that received it only from the
    // second one.
    let begun = first.first.as_ref().unwrap().revision;
    drop((session, db));
    let db = machine.open();
    let last = Once::new(&open(&db, "s"), 2, piece(&events[2..], Some(begun), true));
    assert_eq!(last.answer(), &Answer::Count(1));
    db.runs().append(NewEvent::new("run", "RunResumed").plan("later")).unwrap();
    at_all_times(&machine, db, |db| {
        first.check(db);
        last.check(db);
        assert_eq!(db.runs().fetch("run", 0, 10).unwrap().len(), 4);
    });
}

#[test]
fn an_index_is_declared_and_removed_once() {
    let (machine, db, session) = begin();
    db.records().set_field("r", "f", "v").unwrap();
    let fields = vec![mainstay::Field::new("f").unwrap()];
    let add = Once::new(&session, 1, IndexCommand::Add { prefix: String::new(), fields });
    assert_eq!(db.records().indexes().unwrap().len(), 1);
    let id = db.records().indexes().unwrap()[0].id;
    let remove = Once::new(&session, 2, IndexCommand::Drop { id });
    drop(session);
    at_all_times(&machine, db, |db| {
        add.check(db);
        remove.check(db);
        assert!(db.records().indexes().unwrap().is_empty());
    });
}

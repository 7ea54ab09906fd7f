//! Exports and imports.

use super::*;

#[test]
fn an_import_merges_after_a_trim() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(1_000_000_000);
    let db = Options::new()
        .clock(clock.clone())
        .durability(Durability::Memory)
        .sweep_interval(None)
        .retention(Duration::from_secs(1))
        .memory()
        .unwrap();
    for i in 0..5 {
        db.cells().set("k", i).unwrap();
        clock.advance(Duration::from_secs(10));
    }
    let f = dir.path().join("f");
    db.export("main", &f, &mut |_| {}).unwrap();
    db.import(&f, "imp", &mut |_| {}).unwrap();
    db.branch("imp").unwrap().cells().set("new", 1).unwrap();
    db.trim().unwrap();
    let r = db.merge("imp", "main", MergeStrategy::Theirs);
    assert!(r.is_ok(), "{r:?}");
}

#[test]
fn an_import_keeps_counters_of_what_has_expired() {
    // Replays versions whose expiry lies in the past. Counters and events must be preserved.
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(1_000_000_000);
    let db = Options::new()
        .clock(clock.clone())
        .durability(Durability::Memory)
        .sweep_interval(None)
        .memory()
        .unwrap();
    db.cells().set_with("k", 1, Ttl::Millis(1000)).unwrap();
    db.cells().set("k", 2).unwrap();
    db.cells().set("k", 3).unwrap();
    clock.advance(Duration::from_secs(100));
    let f = dir.path().join("f");
    db.export("main", &f, &mut |_| {}).unwrap();
    db.import(&f, "imp", &mut |_| {}).unwrap();
    let a: Vec<_> =
        db.cells().history("k", 9, None).unwrap().iter().map(|h| (h.counter, h.writes)).collect();
    let b: Vec<_> = db
        .branch("imp")
        .unwrap()
        .cells()
        .history("k", 9, None)
        .unwrap()
        .iter()
        .map(|h| (h.counter, h.writes))
        .collect();
    eprintln!("{a:?} {b:?}");
    assert_eq!(a, b);
}

#[test]
fn an_export_of_a_newer_format_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("main.export");
    let db = Database::memory().unwrap();
    db.cells().set("a", 1).unwrap();
    db.export("main", &path, &mut |_| {}).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let format = whole.windows(6).position(|part| part == b"format").unwrap() + 7;
    for (place, newer) in [(7, b'2'), (format, 2)] {
        let mut bytes = whole.clone();
        bytes[place] = newer;
        std::fs::write(&path, bytes).unwrap();
        let error = db.import(&path, "copy", &mut |_| {}).unwrap_err();
        assert_eq!(error.code(), Code::NewerFormat, "{error}");
        assert!(error.message().contains("format 2"), "{error}");
        assert!(error.message().contains("up to 1"), "{error}");
    }
    assert!(db.branch("copy").is_err());
}

fn copy_of(from: &std::path::Path) -> tempfile::TempDir {
    fn copy(from: &std::path::Path, to: &std::path::Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap().map(std::result::Result::unwrap) {
            let to = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                copy(&entry.path(), &to)
            } else {
                drop(std::fs::copy(entry.path(), to))
            }
        }
    }
    let to = tempfile::tempdir().unwrap();
    copy(from, to.path());
    to
}

#[test]
fn half_an_import_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("main.export");
    let open = |path: &std::path::Path| {
        Options::new().segment_bytes(1 << 16).sweep_interval(None).open(path).unwrap()
    };
    let source = Database::memory().unwrap();
    source.cells().set("first", 1).unwrap();
    source.tag("v", "main", At::Latest).unwrap();
    for n in 0..1500 {
        source.cells().set(&format!("k{n}"), n).unwrap();
    }
    source.export("main", &file, &mut |_| {}).unwrap();
    let path = directory.path().join("db");
    let db = open(&path);
    db.tag("v", "main", At::Latest).unwrap();
    let mut crashed = None;
    db.import(&file, "copy", &mut |progress| {
        if progress.phase != "importing" || progress.done != 1024 {
            return;
        }
        crashed = Some(copy_of(&path));
        // The import is not visible, and its name cannot be taken.
        let names: Vec<_> = db.branches().into_iter().map(|branch| branch.name).collect();
        assert_eq!((names, db.tags().len()), (vec!["main".to_owned()], 1));
        assert_eq!(db.branch("copy").err().unwrap().code(), Code::BranchNotFound);
        let write = Transaction::on("copy").step(CellCommand::set(cell("x"), 1));
        assert_eq!(db.execute(write).unwrap_err().code(), Code::BranchNotFound);
        let fork = db.fork("copy", "main", At::Latest);
        assert_eq!(fork.unwrap_err().code(), Code::BranchExists);
    })
    .unwrap();
    let whole = db.branch("copy").unwrap().cells();
    assert_eq!(whole.list("", None, 9999).unwrap().names.len(), 1501);
    let tag = db.tags().into_iter().find(|tag| tag.name == "copy/v").unwrap();
    let then = whole.at(At::Revision(tag.revision));
    assert_eq!(then.unwrap().list("", None, 9999).unwrap().names, ["first"]);

    let crashed = crashed.unwrap();
    let db = open(crashed.path());
    assert_eq!(db.branches().len(), 1);
    assert_eq!(db.tags().len(), 1);
    assert!(db.pins().iter().all(|pin| !pin.holder.contains("copy")));
    let told = |db: &Database| {
        let mut feed = db.watch(Filter::default(), 0).unwrap();
        let branches = std::iter::from_fn(|| feed.next(Duration::ZERO).unwrap())
            .filter(|e| e.contract == Contract::Branches);
        branches.map(|e| (e.key, e.kind)).collect::<Vec<_>>()
    };
    let copy = |kind| ("copy".to_owned(), kind);
    let events = told(&db);
    assert_eq!(events[1..], [copy(ChangeKind::Forked), copy(ChangeKind::BranchDeleted)]);
    db.import(&file, "copy", &mut |_| {}).unwrap();
    assert_eq!(told(&db)[3], copy(ChangeKind::Forked));
    let again = db.branch("copy").unwrap().cells();
    assert_eq!(again.list("", None, 9999).unwrap().names.len(), 1501);
}

#[test]
fn a_sweep_leaves_an_import_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("main.export");
    let clock = ManualClock::new(1_000_000_000);
    let options = Options::new().clock(clock.clone()).sweep_interval(None);
    let db = options.memory().unwrap();
    db.cells().set_with("k", 1, Ttl::Millis(1000)).unwrap();
    db.cells().set_with("due", 1, Ttl::Millis(1000)).unwrap();
    for n in 0..1500 {
        db.cells().set(&format!("n{n}"), n).unwrap();
    }
    db.cells().set("k", 2).unwrap();
    db.export("main", &file, &mut |_| {}).unwrap();
    clock.advance(Duration::from_secs(10));
    db.import(&file, "copy", &mut |progress| {
        if progress.phase == "importing" {
            db.sweep().unwrap();
        }
    })
    .unwrap();
    let copy = db.branch("copy").unwrap().cells();
    let history = |name: &str| {
        let kept = copy.history(name, 9, None).unwrap();
        kept.into_iter().map(|entry| (entry.counter, entry.value)).collect::<Vec<_>>()
    };
    assert_eq!(history("k"), [(2, Some(2.into())), (1, Some(1.into()))]);
    assert_eq!(copy.get("due").unwrap(), None);
    db.sweep().unwrap();
    assert_eq!(history("due"), [(2, None), (1, Some(1.into()))], "what is due comes due");
}

#[test]
fn an_export_has_the_tags_that_were_there_when_it_began() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("main.export");
    let db = Database::memory().unwrap();
    for i in 0..1500 {
        db.cells().set(&format!("k{i:04}"), i).unwrap();
    }
    db.tag("early", "main", At::Latest).unwrap();
    let mut calls = 0;
    let report = db.export("main", &path, &mut |_| {
        calls += 1;
        if calls == 1 {
            db.untag("early").unwrap();
            db.tag("late", "main", At::Latest).unwrap();
            db.tag("later", "main", At::Latest).unwrap();
        }
    });
    assert_eq!(report.unwrap().tags, 1);
    db.import(&path, "copy", &mut |_| {}).unwrap();
    let tags = db.tags();
    let copied: Vec<_> = tags.iter().filter(|tag| tag.branch == "copy").collect();
    assert_eq!(copied.len(), 1);
    assert_eq!(copied[0].name, "early");
}

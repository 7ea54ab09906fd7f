//! Property test: random programs with full and incremental backups at random points.
//!
//! Each restored chain must answer like the database at the time of its last backup.

#[allow(dead_code, reason = "the random programs use the rest")]
mod program;

use mainstay::{
    At, BranchInfo, Database, Durability, Filter, ManualClock, Options, Revision, Stamp, TagInfo,
    Value, restore_backup,
};
use mainstay_conformance::TestDb;
use program::{driver::Driver, make, step::Program};
use proptest::collection::vec;
use proptest::prelude::*;
use std::path::PathBuf;
use std::time::Duration;

/// A backup after a step of the program: full, or incremental since one of the earlier backups.
#[derive(Clone, Copy, Debug)]
struct Taken {
    behind: usize,
    since: Option<usize>,
}

fn taken() -> impl Strategy<Value = Vec<Taken>> {
    let since = prop_oneof![1 => Just(None), 4 => (0..3usize).prop_map(Some)];
    vec((0..120usize, since).prop_map(|(behind, since)| Taken { behind, since }), 2..8)
}

/// The observable state of a database: its current state and samples of its past.
#[derive(Debug, PartialEq)]
struct Answers {
    revision: Revision,
    branches: Vec<BranchInfo>,
    tags: Vec<TagInfo>,
    hashes: Vec<[u8; 32]>,
    stamps: Vec<Option<Stamp>>,
    past: Vec<Vec<(String, Option<Value>)>>,
}

fn answers(db: &Database) -> Answers {
    let revision = db.revision();
    let branches = db.branches();
    let hash = |branch: &BranchInfo| db.export_hash(&branch.name).unwrap();
    let past = |revision| {
        let cells = db.cells().at(At::Revision(revision)).unwrap();
        let names = cells.list("", None, 1000).unwrap();
        names.names.into_iter().map(|name| (name.clone(), cells.get(&name).unwrap())).collect()
    };
    Answers {
        revision,
        hashes: branches.iter().map(hash).collect(),
        branches,
        tags: db.tags(),
        stamps: (1..=revision).map(|revision| db.stamp_of(revision).ok()).collect(),
        past: (0..=revision).step_by(7).map(past).collect(),
    }
}

/// All feed events after a revision, formatted as text.
fn told(db: &Database, after: Revision) -> Vec<String> {
    let mut feed = db.watch(Filter::default(), after).unwrap();
    std::iter::from_fn(|| feed.next(Duration::ZERO).unwrap().map(|e| format!("{e:?}"))).collect()
}

struct Backup {
    /// The backup's files, from the full backup to this one.
    chain: Vec<PathBuf>,
    /// The revision of the full backup.
    from: Revision,
    revision: Revision,
}

/// All backups taken so far.
#[derive(Default)]
struct Shelf {
    backups: Vec<Backup>,
}

impl Shelf {
    fn take(&mut self, world: &TestDb, since: Option<usize>) {
        let path = world.file(&format!("backup {}", self.backups.len()));
        let before = since.and_then(|back| self.backups.iter().rev().nth(back));
        let taken = match before {
            Some(before) => {
                world.db().backup_since(before.revision, &path, &mut |_| {}).unwrap();
                let chain = before.chain.iter().cloned().chain([path]).collect();
                Backup { chain, from: before.from, revision: world.db().revision() }
            }
            None => {
                let revision = world.db().backup(&path, &mut |_| {}).unwrap().revision;
                Backup { chain: vec![path], from: revision, revision }
            }
        };
        self.check(world, &taken);
        self.backups.push(taken);
    }

    /// Restores the backup and compares it. Runs immediately, because expired values are the same on
    /// both sides only at equal times.
    fn check(&self, world: &TestDb, taken: &Backup) {
        let copy = world.file(&format!("copy {}", self.backups.len()));
        restore_backup(&copy, &taken.chain, &mut |_| {}).unwrap();
        let clock = ManualClock::new(world.wall_us());
        let options = Options::new().sweep_interval(None).clock(clock);
        let restored = options.durability(Durability::Memory).open(&copy).unwrap();
        assert_eq!(answers(&restored), answers(world.db()));
        assert_eq!(told(&restored, taken.from), told(world.db(), taken.from));
    }
}

fn run(program: &Program, taken: &[Taken]) {
    let mut shelf = Shelf::default();
    Driver::new(TestDb::memory(), Durability::Memory).run_watched(program, |number, world| {
        for one in taken.iter().filter(|one| one.behind == number) {
            shelf.take(world, one.since);
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 300,
        cases: 48,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_chain_restores_what_there_was(program in make::program(), taken in taken()) {
        run(&program, &taken);
    }
}

//! Branch load: branches are forked, written, compared, merged and deleted; revisions are tagged and untagged.

use super::work::RETENTION;
use crate::drill::Outcome;
use mainstay::{At, Database, MAIN, MergeStrategy, RecordWrite, Result};
use mainstay_conformance::random::Random;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The number of branch names, used round-robin.
const NAMES: u64 = 8;
/// The number of cells and records written on a branch.
const WRITES: u64 = 5;
/// The pause between two branches.
const PAUSE: Duration = Duration::from_millis(50);

/// The counts, and the expected final state.
#[derive(Clone, Debug, Default)]
pub(super) struct Forks {
    /// The number of branches created.
    pub made: u64,
    /// The number of branches merged.
    pub merged: u64,
    /// The branch whose values were merged last.
    last: Option<u64>,
}

fn cell(k: u64) -> String {
    format!("merged/{k}")
}

/// Creates branches until the load ends, and leaves none.
pub(super) fn run(db: &Database, seed: u64, over: &AtomicBool) -> Outcome<Forks> {
    let mut random = Random::of(&[seed, u64::MAX]);
    let mut forks = Forks::default();
    while !over.load(Ordering::Relaxed) {
        forks.made += 1;
        let number = forks.made;
        let step = forks.step(db, &mut random);
        step.map_err(|error| format!("branch {number}: {error}"))?;
        thread::sleep(PAUSE);
    }
    Ok(forks)
}

impl Forks {
    fn step(&mut self, db: &Database, random: &mut Random) -> Result<()> {
        let name = format!("branch/{}", self.made % NAMES);
        let tag = format!("tag/{}", self.made % NAMES);
        // A fork of the past uses a moment that retention still keeps.
        let past = db.now_us()?.saturating_sub(RETENTION.as_micros() as u64 / 5);
        let at = if random.chance(30) { At::Stamp(past) } else { At::Latest };
        db.tag(&tag, MAIN, At::Latest)?;
        db.fork(&name, MAIN, at)?;
        self.write(db, &name)?;
        db.diff(&name, MAIN)?;
        if random.chance(50) {
            db.merge(&name, MAIN, MergeStrategy::Theirs)?;
            (self.merged, self.last) = (self.merged + 1, Some(self.made));
        }
        db.delete_branch(&name)?;
        db.untag(&tag).map(drop)
    }

    fn write(&self, db: &Database, name: &str) -> Result<()> {
        let branch = db.branch(name)?;
        for k in 0..WRITES {
            branch.cells().set(&cell(k), self.made as i64)?;
            let write = RecordWrite::to(&cell(k))?.set("number", self.made.to_string())?;
            branch.records().write(write)?;
        }
        Ok(())
    }

    /// Checks that the values of the last merge are present, and that no branch or tag is left.
    pub fn check(&self, db: &Database) -> Outcome<()> {
        let told = |error: mainstay::Error| format!("looking at branches: {error}");
        for k in 0..WRITES {
            let found = db.cells().get(&cell(k)).map_err(told)?;
            if found != self.last.map(|last| (last as i64).into()) {
                return Err(format!("`{}` is {found:?}, merged was {:?}", cell(k), self.last));
            }
        }
        match (db.branches().len(), db.tags().len()) {
            (1, 0) => Ok(()),
            (branches, tags) => Err(format!("there are {branches} branches and {tags} tags")),
        }
    }
}

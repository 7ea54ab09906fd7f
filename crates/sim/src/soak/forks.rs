//! Branches all the time: forked, written to, compared, merged, deleted; revisions tagged and untagged.

use super::work::RETENTION;
use crate::drill::Outcome;
use mainstay::{At, Database, MAIN, MergeStrategy, RecordWrite, Result};
use mainstay_conformance::random::Random;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How many names branches have, one after the other.
const NAMES: u64 = 8;
/// How many cells and records are written on a branch.
const WRITES: u64 = 5;
/// Between a branch and the next one.
const PAUSE: Duration = Duration::from_millis(50);

/// What was done, and what has to be there.
#[derive(Clone, Debug, Default)]
pub(super) struct Forks {
    /// How many branches were made.
    pub made: u64,
    /// How many of them were merged.
    pub merged: u64,
    /// The branch that brought the last values.
    last: Option<u64>,
}

fn cell(k: u64) -> String {
    format!("merged/{k}")
}

/// Makes branches until all is over; none is left then.
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
        // Where the past is forked, it is one that is kept.
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

    /// What the last merge brought is there, and no branch or tag is.
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

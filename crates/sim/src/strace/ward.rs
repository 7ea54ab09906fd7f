//! Runs cases one after the other on copies of a database with a history.

use super::case::Case;
use super::child::Orders;
use super::choice::{places, some, ways};
use super::explore::{Plan, Tally};
use super::pages::Pages;
use super::tracer::{Life, Tracer};
use crate::cuts::{self, DATABASE, settle_at};
use crate::disk::{Homes, Image};
use crate::drill::{Outcome, Run, Voice, Work, options, write};
use mainstay_conformance::random::Random;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A database with a history, the output of its writers, and the tracer for its cases.
pub struct Ward<'a> {
    plan: &'a Plan,
    /// The disk directory in which children run.
    home: tempfile::TempDir,
    /// The memory directory in which the results are checked, which needs no disk.
    homes: Homes,
    tracer: Tracer,
    image: Image,
    said: Vec<(u64, String)>,
}

impl<'a> Ward<'a> {
    /// Creates the database.
    pub fn make(plan: &'a Plan) -> Outcome<Ward<'a>> {
        let told = |error: io::Error| format!("a temporary directory: {error}");
        let home = tempfile::Builder::new().prefix("mainstay-strace-").tempdir().map_err(told)?;
        // strace prints canonical paths.
        let at = home.path().canonicalize().map_err(told)?;
        let directory = at.join(DATABASE);
        let homes = Homes::make()?;
        let mut said = Vec::new();
        for generation in [1, 2] {
            let work = Work { generation, ..work(plan.seed) };
            said.push((generation, write_to(&homes.image, work)?));
        }
        let image = Image::read(&homes.image).map_err(told)?;
        let program = plan.program.clone();
        let bug = plan.bug.clone();
        let tracer = Tracer { program, directory, trace: at.join("trace"), bug };
        Ok(Ward { plan, home, homes, tracer, image, said })
    }

    /// Keeps the trace and the files of a violation.
    pub fn keep(&mut self, what: &str) -> String {
        self.home.disable_cleanup(true);
        format!("{what} (trace and files are in {})", self.home.path().display())
    }

    /// Returns all possible cases: one per call that an undisturbed child makes, thread by thread.
    pub fn cases(&self) -> Outcome<Vec<Case>> {
        let mut all = Vec::new();
        for new in [false, true] {
            let before = self.prepare(new)?;
            let Life { events, begun, refused, .. } = self.live(None, before.len() as u64 + 1)?;
            if !begun || refused.is_some() {
                return Err(format!("a child that nothing fails for does not live: {refused:?}"));
            }
            for (call, n) in places(&events, &self.tracer.directory) {
                all.extend(ways(call).map(|(error, lasting)| Case {
                    new,
                    call,
                    error,
                    n,
                    lasting,
                }));
            }
        }
        Ok(match self.plan.count {
            Some(count) => some(all, count, &mut Random::of(&[self.plan.seed])),
            None => all,
        })
    }

    /// Prepares the directory for a child, and returns the earlier output of writers.
    fn prepare(&self, new: bool) -> Outcome<Vec<(u64, String)>> {
        let told = |error: io::Error| format!("the directory of a child: {error}");
        if new {
            // A new database's parent directories are created by the child as well.
            let way = Path::new(DATABASE).iter().next().unwrap_or_default();
            return match fs::remove_dir_all(self.tracer.trace.with_file_name(way)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(told(error)),
                _ => Ok(Vec::new()),
            };
        }
        self.image.write(&self.tracer.directory).map_err(told)?;
        Ok(self.said.clone())
    }

    fn live(&self, case: Option<Case>, generation: u64) -> Outcome<Life> {
        let seed = self.plan.seed;
        let calm = Orders { seed, generation, faulty: false, blind: false, resumes: true };
        self.tracer.live(case, case.map_or(calm, |case| case.orders(seed, generation)))
    }

    /// Runs a child with a failure, and checks the database that it leaves.
    pub fn suffer(&self, case: Case, tally: &mut Tally) -> Outcome<()> {
        let mut said = self.prepare(case.new)?;
        let generation = said.len() as u64 + 1;
        let life = self.live(Some(case), generation)?;
        // Parsing the output reports violations.
        Run::read(generation, &life.said)?;
        if let (Some(refused), true) = (&life.refused, case.error.is_harmless()) {
            return Err(format!("opening took it for a failure: {refused}"));
        }
        tally.count(case, &life, &self.tracer.directory);
        let none = Image::default();
        let before = if case.new { &none } else { &self.image };
        let pages = Pages::after(&life.events);
        let forgotten = pages.drop_forgotten(&self.tracer.directory, before);
        tally.forgotten_bytes += forgotten.map_err(|error| format!("forgetting: {error}"))?;
        // Kept beside the trace, to help find the cause of a violation.
        let _ = fs::write(self.tracer.trace.with_extension("said"), &life.said);
        said.push((generation, life.said));
        tally.acknowledged += self.look_at(said)?;
        Ok(())
    }

    /// Opens the database that a child left, writes to it and checks it. Returns how many acknowledged
    /// writes were checked.
    fn look_at(&self, mut said: Vec<(u64, String)>) -> Outcome<u64> {
        let left = match Image::read(&self.tracer.directory) {
            // The child failed before it created a directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Image::default()),
            read => read,
        };
        let copied = left.and_then(|image| image.write(&self.homes.image));
        copied.map_err(|error| format!("copying what was left: {error}"))?;
        let generation = said.len() as u64 + 1;
        let work = Work { generation, operations: 3, ..work(self.plan.seed) };
        let again = write_to(&self.homes.image, work);
        said.push((generation, again.map_err(|what| format!("opened again: {what}"))?));
        let mut settled = cuts::Tally::default();
        settle_at(&self.homes.image, &options(), &said, &mut settled)?;
        Ok(settled.acknowledged)
    }
}

fn work(seed: u64) -> Work {
    Work { seed, generation: 1, writers: 3, operations: 40, faulty: false }
}

/// Writes to a database without strace. Returns the output of the writers.
fn write_to(directory: &Path, work: Work) -> Outcome<String> {
    let heard = Arc::new(Heard::default());
    let voice: Arc<dyn Voice> = heard.clone();
    let db = options().open(directory).map_err(|error| format!("LOST: {error}"))?;
    for writer in write(&db, &voice, work) {
        writer.join().map_err(|_| "a writer panicked")?;
    }
    db.close().map_err(|error| format!("closing: {error}"))?;
    let said = heard.0.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(said.clone())
}

/// Collects the output of writers.
#[derive(Default)]
struct Heard(Mutex<String>);

impl Voice for Heard {
    fn say(&self, line: &str) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.push_str(line);
        said.push('\n');
    }
}

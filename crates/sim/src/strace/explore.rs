//! Failures at the calls that an undisturbed child makes.

use super::call::{Call, Errno};
use super::case::Case;
use super::child::Orders;
use super::pages::Pages;
use super::trace::Event;
use super::tracer::{Life, Tracer, is_ours};
use crate::cuts::{self, DATABASE, settle_at};
use crate::disk::{Homes, Image};
use crate::drill::{Outcome, Run, Voice, Work, options, write};
use crate::watchdog::Watchdog;
use mainstay_conformance::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// No case needs so long; the child has a shorter limit of its own.
const CASE_LIMIT: Duration = Duration::from_secs(120);

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What all choices come from, but for the order in which threads run.
    pub seed: u64,
    /// How many failures; nothing: one at every call, in every way.
    pub count: Option<u64>,
    /// The program that is the child when it is called with `traced`.
    pub program: PathBuf,
    /// The bug that children have on purpose.
    pub bug: Option<String>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Cases that were run.
    pub cases: u64,
    /// Those in which the failure came to pass.
    pub met: u64,
    /// Calls that failed, by kind.
    pub calls: BTreeMap<Call, u64>,
    /// By how they failed.
    pub errors: BTreeMap<Errno, u64>,
    /// Which files they were on, without their numbers.
    pub places: BTreeSet<String>,
    /// Children that failed before they came to their database.
    pub astray: u64,
    /// How often opening was refused.
    pub refused: u64,
    /// How often writing was refused until it was opened again.
    pub latched: u64,
    /// How many bytes were forgotten because a sync of them failed.
    pub forgotten_bytes: u64,
    /// Acknowledged writes that were looked for.
    pub acknowledged: u64,
}

/// Runs the plan; the error says what was violated.
pub fn run(plan: &Plan, mut say: impl FnMut(&Tally)) -> Outcome<Tally> {
    let mut ward = Ward::make(plan)?;
    let dog = Watchdog::new(CASE_LIMIT);
    let mut tally = Tally::default();
    for case in ward.cases()? {
        dog.watch(format!("seed {}: {case}", plan.seed));
        let done = ward.suffer(case, &mut tally);
        done.map_err(|what| ward.keep(&format!("seed {}: {case}: {what}", plan.seed)))?;
        if tally.cases.is_multiple_of(50) {
            say(&tally);
        }
    }
    Ok(tally)
}

/// A database with a past, what its writers were told, and who lets it suffer.
struct Ward<'a> {
    plan: &'a Plan,
    /// On the disk: children live there.
    home: tempfile::TempDir,
    /// In memory: what they leave is looked at there, which needs no disk.
    homes: Homes,
    tracer: Tracer,
    image: Image,
    said: Vec<(u64, String)>,
}

impl<'a> Ward<'a> {
    fn make(plan: &'a Plan) -> Outcome<Ward<'a>> {
        let told = |error: io::Error| format!("a temporary directory: {error}");
        let home = tempfile::Builder::new().prefix("mainstay-strace-").tempdir().map_err(told)?;
        // strace names files as the system does.
        let at = home.path().canonicalize().map_err(told)?;
        let directory = at.join(DATABASE);
        let homes = Homes::make()?;
        let mut said = Vec::new();
        for generation in [1, 2] {
            let work = Work { generation, ..work(plan.seed) };
            said.push((generation, write_to(&homes.image, work)?));
        }
        let image = Image::read(&homes.image).map_err(told)?;
        let (program, bug) = (plan.program.clone(), plan.bug.clone());
        let tracer = Tracer { program, directory, trace: at.join("trace"), bug };
        Ok(Ward { plan, home, homes, tracer, image, said })
    }

    /// Trace and files of a violation are kept.
    fn keep(&mut self, what: &str) -> String {
        self.home.disable_cleanup(true);
        format!("{what} (trace and files are in {})", self.home.path().display())
    }

    /// All that can fail: what children that meet no failure call, thread by thread.
    fn cases(&self) -> Outcome<Vec<Case>> {
        let mut all = Vec::new();
        for new in [false, true] {
            let before = self.prepare(new)?;
            let Life { events, .. } = self.live(None, before.len() as u64 + 1)?;
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

    /// Puts the directory as it is before a child, and gives what was said until then.
    fn prepare(&self, new: bool) -> Outcome<Vec<(u64, String)>> {
        let told = |error: io::Error| format!("the directory of a child: {error}");
        if new {
            return match fs::remove_dir_all(&self.tracer.directory) {
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

    /// Lets a child meet a failure, and looks at what is left.
    fn suffer(&self, case: Case, tally: &mut Tally) -> Outcome<()> {
        let mut said = self.prepare(case.new)?;
        let generation = said.len() as u64 + 1;
        let life = self.live(Some(case), generation)?;
        // What must never have happened is in what it said.
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
        // Beside the trace, for whoever looks for what went wrong.
        let _ = fs::write(self.tracer.trace.with_extension("said"), &life.said);
        said.push((generation, life.said));
        tally.acknowledged += self.look_at(said)?;
        Ok(())
    }

    /// Opens what a child has left, writes to it and settles the account; gives how many acknowledged writes were looked for.
    fn look_at(&self, mut said: Vec<(u64, String)>) -> Outcome<u64> {
        let left = match Image::read(&self.tracer.directory) {
            // It failed before there was a directory.
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

/// Writes to a directory without strace; gives what was said.
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

/// Keeps what is said.
#[derive(Default)]
struct Heard(Mutex<String>);

impl Voice for Heard {
    fn say(&self, line: &str) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.push_str(line);
        said.push('\n');
    }
}

/// Which calls can be let fail by their number. As every thread counts for itself, a number is left out where it is a call of some
/// thread that is not the database's: the program's own libraries are opened first.
fn places(events: &[Event], directory: &Path) -> BTreeSet<(Call, u64)> {
    let mut counts: BTreeMap<(Call, u64), u64> = BTreeMap::new();
    let (mut ours, mut others) = (BTreeSet::new(), BTreeSet::new());
    let mut begun: Vec<&Event> = events.iter().collect();
    begun.sort_by_key(|event| event.begun);
    for event in begun {
        let n = counts.entry((event.call, event.thread)).or_default();
        *n += 1;
        let side = if is_ours(event, directory) { &mut ours } else { &mut others };
        side.insert((event.call, *n));
    }
    ours.difference(&others).copied().collect()
}

/// How a call can fail, and whether for good; what is asked again until it is done must not fail for good.
fn ways(call: Call) -> impl Iterator<Item = (Errno, bool)> {
    let both = |error: &Errno| [(*error, false), (*error, true)];
    let ways = call.errors().iter().flat_map(both);
    ways.filter(|(error, lasting)| !lasting || *error != Errno::Eintr)
}

/// As many of each kind of failure, as far as there are so many.
fn some(all: Vec<Case>, count: u64, random: &mut Random) -> Vec<Case> {
    let mut kinds: BTreeMap<(Call, Errno), Vec<Case>> = BTreeMap::new();
    all.into_iter().for_each(|case| kinds.entry((case.call, case.error)).or_default().push(case));
    let mut chosen = Vec::new();
    while (chosen.len() as u64) < count && !kinds.is_empty() {
        for cases in kinds.values_mut().take(count as usize - chosen.len()) {
            chosen.push(cases.swap_remove(random.below(cases.len() as u64) as usize));
        }
        kinds.retain(|_, cases| !cases.is_empty());
    }
    chosen
}

impl Tally {
    fn count(&mut self, case: Case, life: &Life, directory: &Path) {
        self.cases += 1;
        self.astray += u64::from(!life.begun);
        self.refused += u64::from(life.refused.is_some());
        self.latched += u64::from(life.latched);
        let hits = || life.hits().filter(|event| is_ours(event, directory));
        self.met += u64::from(hits().next().is_some());
        *self.calls.entry(case.call).or_default() += hits().count() as u64;
        *self.errors.entry(case.error).or_default() += hits().count() as u64;
        let numbers = |c: char| c.is_ascii_digit();
        let place = |event: &Event| {
            let path = event.path.strip_prefix(directory).unwrap_or(&event.path);
            format!("{} of {}", event.call, path.display()).replace(numbers, "#")
        };
        self.places.extend(hits().map(place));
    }
}

//! One injected failure, and the checks during and after it.

use super::life::{go_on, live_through, look};
use crate::cuts::{DATABASE, Recording, Start, Taped, Trouble, settle};
use crate::disk::{Action, Event, Fault, Homes, Image, Model, Mount, Platter, Tree};
use crate::drill::{Outcome, Voice, Work, write};
use mainstay::{Database, Options};
use mainstay_conformance::random::Random;
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// How often power fails after the database is reopened and written to.
const CUTS: usize = 4;

/// How often power fails before that.
const CUTS_MEANWHILE: usize = 2;

/// The size of write buffers, so small that replayed data is flushed to the index at once.
const REPLAY_BUFFER_BYTES: u64 = 64 << 10;

/// The call that fails, and the way in which it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// The kind of the call.
    pub action: Action,
    /// The index of the first failing call of this kind.
    pub n: u64,
    /// The number of failing calls from there.
    pub many: u64,
    /// The way in which they fail.
    pub fault: Fault,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { action, n, many, fault } = self;
        let many = if *many == 1 { "once" } else { "from then on" };
        write!(f, "{action:?} {n} fails, {many}, with {fault}")
    }
}

/// A database with a history, and the output of its writers.
pub struct Patient {
    /// The files of the database.
    pub image: Image,
    /// The writers' output, by process.
    pub said: Vec<(u64, String)>,
    /// The options that it is opened with.
    pub options: Options,
    /// The file that a violation is written to.
    pub keep: PathBuf,
}

/// The observations of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The place of the failure, if it occurred.
    pub hit: Option<String>,
    /// Whether opening failed.
    pub refused: bool,
    /// Whether writes were refused until the database was reopened.
    pub latched: bool,
    /// The number of calls of each kind until the disk was repaired.
    pub calls: Vec<(Action, u64)>,
    /// The number of acknowledged writes that were checked.
    pub acknowledged: u64,
}

impl Patient {
    /// Injects the failure and checks the database. Returns an error that describes a violation.
    pub fn suffer(&self, case: Case, seed: u64, homes: &Homes) -> Outcome<Shown> {
        let disk = |error: std::io::Error| format!("the disk in memory: {error}");
        let mount = Mount::new(Tree::of(&self.image), &homes.mounted).map_err(disk)?;
        let voice: Arc<dyn Voice> = Arc::new(Taped(mount.tape().clone()));
        let generation = self.said.last().map_or(0, |(generation, _)| *generation) + 1;
        mount.faults().plan(case.action, case.n, case.many, case.fault);
        let mut shown = Shown::default();
        let work = Work { seed, generation, writers: 3, operations: 10, faulty: true };
        match self.options.clone().open(mount.directory().join(DATABASE)) {
            Err(_) => shown.refused = true,
            Ok(db) => {
                let ended = suffer_all(&db, &voice, work, case, &mount);
                shown.latched = db.stats().read_only;
                drop(db);
                ended?;
            }
        }
        shown.calls = Action::ALL.map(|action| (action, mount.faults().count(action))).into();
        shown.hit = mount.faults().clear();
        let reopened_at = mount.tape().len();
        let work = Work { generation: generation + 1, operations: 3, faulty: false, ..work };
        let reopened = write_again(&mount, &voice, work, self.options.clone());
        reopened.map_err(|what| format!("opened again on the same disk: {what}"))?;
        let aftermath = Aftermath { events: mount.tape().take(), reopened_at, generation };
        shown.acknowledged = self.pull_the_plug(&aftermath, seed, homes)?;
        mount.end().map_err(disk)?;
        Ok(shown)
    }

    /// Cuts power at the end, at some moments after the reopening and at some before, and checks that
    /// everything acknowledged by then survives.
    fn pull_the_plug(&self, aftermath: &Aftermath, seed: u64, homes: &Homes) -> Outcome<u64> {
        let mut random = Random::of(&[seed]);
        let mut platter = Platter::of(&Tree::of(&self.image));
        let mut at = 0;
        let mut tally = Default::default();
        for (cut, model) in aftermath.cuts(&mut random) {
            aftermath.events[at..cut].iter().for_each(|event| platter.apply(event));
            at = cut;
            let seed = random.next();
            let image = platter.cut(model, &mut Random::of(&[seed]));
            let said: Vec<_> = self.said.iter().cloned().chain(aftermath.said(cut)).collect();
            settle(&image, &said, &homes.image, &mut tally).map_err(|what| {
                let total = aftermath.events.len();
                let kept = self.keep(aftermath, &said, (cut, model, seed), &what);
                format!("power failed (event {cut} of {total}, {model}): {what}\n{kept}")
            })?;
        }
        Ok(tally.acknowledged)
    }

    /// Writes a violation to a file, so that it can be examined again.
    fn keep(
        &self,
        aftermath: &Aftermath,
        said: &[(u64, String)],
        (cut, model, seed): (usize, Model, u64),
        what: &str,
    ) -> String {
        let start =
            Start { base: self.image.clone(), since: Vec::new(), before: self.said.clone() };
        let generation = aftermath.generation;
        let events = aftermath.events.clone();
        let recording = Recording { generation, start, events };
        let said = said.to_vec();
        let what = what.to_owned();
        let trouble = Trouble { recording, said, cut, model, seed, what, procedure: None };
        trouble.save(&self.keep)
    }
}

/// The events on the disk: during the failure, and after the repair, when the database was opened
/// again.
struct Aftermath {
    events: Vec<Event>,
    reopened_at: usize,
    generation: u64,
}

impl Aftermath {
    fn cuts(&self, random: &mut Random) -> BTreeSet<(usize, Model)> {
        let from = self.reopened_at;
        let end = self.events.len();
        let mut cuts: BTreeSet<_> =
            [Model::Nothing, Model::Torn512, Model::Everything].map(|model| (end, model)).into();
        for _ in 0..CUTS_MEANWHILE {
            let cut = random.below(from as u64 + 1) as usize;
            cuts.insert((cut, Model::ALL[random.below(Model::ALL.len() as u64) as usize]));
        }
        for _ in 0..CUTS {
            let cut = from + random.below((end - from) as u64 + 1) as usize;
            cuts.insert((cut, Model::ALL[random.below(Model::ALL.len() as u64) as usize]));
        }
        cuts
    }

    /// Returns the output of both processes up to an event.
    fn said(&self, cut: usize) -> Vec<(u64, String)> {
        let (first, second) = self.events[..cut].split_at(cut.min(self.reopened_at));
        let mut by_process = vec![(self.generation, said(first))];
        if cut >= self.reopened_at {
            by_process.push((self.generation + 1, said(second)));
        }
        by_process
    }
}

/// Writes and reads while the disk fails, and continues after the repair.
fn suffer_all(
    db: &Database,
    voice: &Arc<dyn Voice>,
    work: Work,
    case: Case,
    mount: &Mount,
) -> Outcome<()> {
    live_through(db, voice, work)?;
    if case.action != Action::Read {
        look(db)?;
    }
    mount.faults().clear_plan();
    if case.fault == Fault::Full && case.action != Action::Sync {
        go_on(db)?;
    }
    // An error of `close` reports writes that were not synced; those are no loss.
    let _ = db.close();
    Ok(())
}

/// Opens the database on the current disk and writes to it.
fn write_again(mount: &Mount, voice: &Arc<dyn Voice>, work: Work, options: Options) -> Outcome<()> {
    let options = options.write_buffer_bytes(REPLAY_BUFFER_BYTES);
    let opened = options.open(mount.directory().join(DATABASE));
    let db = opened.map_err(|error| format!("LOST: {error}"))?;
    for writer in write(&db, voice, work) {
        writer.join().map_err(|_| "a writer panicked")?;
    }
    db.close().map_err(|error| format!("closing: {error}"))
}

fn said(events: &[Event]) -> String {
    let note = |event: &Event| match event {
        Event::Note(line) => Some(format!("{line}\n")),
        _ => None,
    };
    events.iter().filter_map(note).collect()
}

//! Cuts off a procedure at its event boundaries.

use super::life::turn_of;
use super::procedure::Procedure;
use super::recording::{Recording, Start};
use super::remains::Remains;
use super::subject::Subject;
use super::trouble::Trouble;
use crate::disk::{Event, Homes, Image, Model, Mount};
use crate::drill::Outcome;
use crate::effort;
use mainstay_conformance::random::Random;
use std::path::Path;

/// The procedure is also killed once per this many cuts.
const CUTS_FOR_EACH_KILL: usize = 10;

/// Number of power cuts after each kill.
const CUTS_EACH_KILLED: u64 = 6;

/// One more cut right after one of the last renames, per this many cuts.
const CUTS_FOR_EACH_FATE: usize = 10;

/// Number of renames that count as the last ones.
const LAST_NAMES: usize = 6;

/// The journal line of a finished procedure.
const DONE: &str = "done";

/// Runs the procedure on a recording disk and cuts it off at boundaries, at most `most` times. Returns the
/// number of cuts.
///
/// It also kills the procedure, repeats it on the remaining files, and cuts that off.
pub fn cut_all(
    procedure: Procedure,
    subject: &Subject,
    homes: &Homes,
    (seed, most): (u64, usize),
) -> Result<u64, Broken> {
    let start = procedure.prepare(subject, homes)?;
    let mut random = Random::of(&[seed, procedure as u64]);
    let kills = most.div_ceil(CUTS_FOR_EACH_KILL);
    let before = start.tree().image();
    let trial = Trial { procedure, subject, before: &before, homes };
    let recording = record(start, homes, |mount| procedure.perform(mount))?;
    // At its end, and shortly before, the procedure has made the most guarantees.
    let mut last = between_names(&recording, most / CUTS_FOR_EACH_FATE, &mut random);
    last.extend(at_end(&recording));
    let mut cuts = trial.cut(&recording, last, &mut random)?;
    let chosen = recording.cuts((most - kills) as u64, &mut random);
    cuts += trial.cut(&recording, chosen.into_iter().collect(), &mut random)?;
    for kill in 0..kills {
        // The last renames complete the procedure.
        let start = match recording.last_renames().nth(kill / 2) {
            Some(at) if kill % 2 == 0 => recording.killed_at(at),
            _ => recording.after_kill(&mut random),
        };
        let next = record(start, homes, |mount| procedure.perform_again(mount))?;
        let chosen = next.cuts(CUTS_EACH_KILLED, &mut random).into_iter().chain(at_end(&next));
        let killed = trial.cut(&next, chosen.collect(), &mut random);
        cuts += killed.map_err(|broken| broken.after_kill())?;
    }
    Ok(cuts)
}

/// A cut at the end, with every model.
fn at_end(recording: &Recording) -> [(usize, Model); 6] {
    Model::ALL.map(|model| (recording.events.len(), model))
}

/// Cuts right after the last renames. Which of several names survive is random, so the same position is tried
/// repeatedly.
fn between_names(recording: &Recording, count: usize, random: &mut Random) -> Vec<(usize, Model)> {
    let places: Vec<_> = recording.last_renames().take(LAST_NAMES).collect();
    let models = [Model::Some, Model::Torn512, Model::Torn4096];
    let mut one_of = |count: usize| random.below(count as u64) as usize;
    let count = if places.is_empty() { 0 } else { count };
    (0..count).map(|_| (places[one_of(places.len())], models[one_of(models.len())])).collect()
}

/// A violation.
#[derive(Debug)]
pub struct Broken {
    /// Description of the violation.
    pub what: String,
    /// The cut that caused it, if a cut was being checked.
    pub trouble: Option<Box<Trouble>>,
}

impl From<String> for Broken {
    fn from(what: String) -> Broken {
        Broken { what, trouble: None }
    }
}

impl Broken {
    /// Saves the violation, so that it can be replayed. Returns a description.
    pub fn keep(&self, path: &Path, seed: u64) -> String {
        let kept = self.trouble.as_ref().map(|trouble| trouble.save(path));
        format!("seed {seed}: {}\n{}", self.what, kept.unwrap_or_default())
    }

    fn after_kill(self) -> Broken {
        Broken { what: format!("killed and begun again: {}", self.what), ..self }
    }
}

/// Results of a procedure before a cut.
pub(super) struct Said {
    /// True if the procedure has finished.
    pub(super) done: bool,
    /// The acknowledged cells, including those from before a kill.
    pub(super) turns: Vec<u8>,
}

impl Said {
    fn by(recording: &Recording, cut: usize) -> Said {
        let done = recording.events[..cut].contains(&Event::Note(DONE.to_owned()));
        let said = recording.said(cut);
        let lines = said.iter().flat_map(|(_, text)| text.lines());
        let turns = lines.filter_map(turn_of);
        Said { done, turns: turns.collect() }
    }
}

/// A procedure under test.
struct Trial<'a> {
    procedure: Procedure,
    subject: &'a Subject,
    /// The files from which it starts.
    before: &'a Image,
    homes: &'a Homes,
}

/// Records a procedure on a recording disk.
pub(super) fn record(
    start: Start,
    homes: &Homes,
    perform: impl FnOnce(&Mount) -> Outcome<()>,
) -> Outcome<Recording> {
    let disk = |error: std::io::Error| format!("the disk in memory: {error}");
    let mount = Mount::new(start.tree(), &homes.mounted).map_err(disk)?;
    perform(&mount)?;
    mount.tape().push(Event::Note(DONE.to_owned()));
    let events = mount.tape().take();
    mount.end().map_err(disk)?;
    Ok(Recording { generation: 0, start, events })
}

impl Trial<'_> {
    fn cut(
        &self,
        recording: &Recording,
        mut chosen: Vec<(usize, Model)>,
        random: &mut Random,
    ) -> Result<u64, Broken> {
        let Trial { procedure, subject, before, homes } = *self;
        let disk = |error: std::io::Error| format!("writing an image: {error}");
        let mut at = 0;
        let mut cuts = 0;
        let mut platter = recording.start.platter();
        chosen.sort();
        for (cut, model) in chosen {
            effort::step()?;
            recording.events[at..cut].iter().for_each(|event| platter.apply(event));
            at = cut;
            let said = Said::by(recording, cut);
            let seed = random.next();
            let image = platter.cut(model, &mut Random::of(&[seed]));
            image.write(&homes.image).map_err(disk)?;
            let remains = Remains { procedure, subject, before, root: &homes.image, said: &said };
            remains.verify().map_err(|what| self.broken(recording, (cut, model, seed), what))?;
            cuts += 1;
        }
        Ok(cuts)
    }

    fn broken(
        &self,
        recording: &Recording,
        (cut, model, seed): (usize, Model, u64),
        what: String,
    ) -> Broken {
        let procedure = format!("{:?}", self.procedure);
        let total = recording.events.len();
        let said = recording.said(cut);
        let recording = recording.clone();
        let told = what.clone();
        let what = format!("{procedure}, a cut at event {cut} of {total}, model {model}: {what}");
        let procedure = Some(procedure);
        let trouble = Trouble { recording, said, cut, model, seed, what: told, procedure };
        Broken { what, trouble: Some(Box::new(trouble)) }
    }
}

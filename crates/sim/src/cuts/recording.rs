//! A drill on a disk that writes down what is done to it.

use crate::disk::{Event, Image, Model, Mount, Platter, Tape, Tree};
use crate::drill::{Outcome, Run, Voice, Work, write};
use mainstay::{Database, Options};
use mainstay_conformance::random::Random;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The database's directory on the disk, in others that are made with it.
pub const DATABASE: &str = "srv/data/db";

/// What happens so soon after a name was given may rest on it.
const NEAR: usize = 6;

/// A write of no more is there whole or not at all.
const SECTOR_BYTES: usize = 512;

/// What happened in one process, and before it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recording {
    /// The number of the process.
    pub generation: u64,
    /// What it began with.
    pub start: Start,
    /// What happened.
    pub events: Vec<Event>,
}

/// What a process begins with.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Start {
    /// The files that a power cut left.
    pub base: Image,
    /// What processes did since then that were killed: all of it is seen, and what was not synced is not safe.
    pub since: Vec<Event>,
    /// What processes before it had said.
    pub before: Vec<(u64, String)>,
}

impl Start {
    /// The files as they are seen.
    pub fn tree(&self) -> Tree {
        let mut tree = Tree::of(&self.base);
        self.since.iter().for_each(|event| tree.apply(event));
        tree
    }

    /// The disk under them.
    pub fn platter(&self) -> Platter {
        let mut platter = Platter::of(&Tree::of(&self.base));
        self.since.iter().for_each(|event| platter.apply(event));
        platter
    }
}

/// Writers who speak onto a tape.
pub struct Taped(pub Tape);

impl Voice for Taped {
    fn say(&self, line: &str) {
        self.0.push(Event::Note(line.to_owned()));
    }
}

impl Recording {
    /// Lets writers work on a disk.
    pub fn make(start: Start, work: Work, options: Options, home: &Path) -> Outcome<Recording> {
        let disk = |error: std::io::Error| format!("the disk in memory: {error}");
        let mount = Mount::new(start.tree(), home).map_err(disk)?;
        let voice: Arc<dyn Voice> = Arc::new(Taped(mount.tape().clone()));
        let mut random = Random::of(&[work.seed, work.generation]);
        let opened = options.open(mount.directory().join(DATABASE));
        let db = opened.map_err(|error| format!("LOST: opening after the cut: {error}"))?;
        let writers = write(&db, &voice, work);
        keep_house(&db, &writers, work)?;
        for writer in writers {
            writer.join().map_err(|_| "a writer panicked")?;
        }
        if random.chance(50) {
            db.close().map_err(|error| format!("closing: {error}"))?;
        }
        let events = mount.tape().take();
        drop(db);
        mount.end().map_err(disk)?;
        Ok(Recording { generation: work.generation, start, events })
    }

    /// The files at its end.
    pub fn end(&self) -> Image {
        let mut tree = self.start.tree();
        self.events.iter().for_each(|event| tree.apply(event));
        tree.image()
    }

    /// What its process had said by then, and those before it.
    pub fn said(&self, cut: usize) -> Vec<(u64, String)> {
        let notes = self.events[..cut].iter().filter_map(|event| match event {
            Event::Note(line) => Some(line.as_str()),
            _ => None,
        });
        let said = notes.fold(String::new(), |said, line| said + line + "\n");
        self.start.before.iter().cloned().chain([(self.generation, said)]).collect()
    }

    /// What the next process begins with if power fails then, and this is left.
    pub fn after_cut(&self, cut: usize, left: Image) -> Start {
        Start { base: left, since: Vec::new(), before: self.said(cut) }
    }

    /// What the next process begins with if all of it is safe.
    pub fn after_all(&self) -> Start {
        self.after_cut(self.events.len(), self.end())
    }

    /// What the next process begins with if this one is killed: where it has given something a name, or written something,
    /// while it was opening, or at any time.
    pub fn after_kill(&self, random: &mut Random) -> Start {
        let behind = |is_one: fn(&Event) -> bool| -> Vec<usize> {
            let all = self.events.iter().enumerate();
            all.filter(|(_, event)| is_one(event)).map(|(at, _)| at + 1).collect()
        };
        let places = match random.below(5) {
            0 => behind(Event::is_about_names),
            // The last ones often enough.
            1 => self.last_renames().take([5, usize::MAX][random.below(2) as usize]).collect(),
            2 => behind(|event| matches!(event, Event::Write { .. })),
            3 => (0..=self.opening()).collect(),
            _ => (0..=self.events.len()).collect(),
        };
        let chosen = random.below(places.len().max(1) as u64) as usize;
        self.killed_at(places.get(chosen).copied().unwrap_or(0))
    }

    /// Right behind each renaming, the last one first.
    pub fn last_renames(&self) -> impl Iterator<Item = usize> {
        let all = self.events.iter().enumerate().rev();
        all.filter(|(_, event)| matches!(event, Event::Rename { .. })).map(|(at, _)| at + 1)
    }

    /// What the next process begins with if this one is killed then.
    pub fn killed_at(&self, at: usize) -> Start {
        let since = self.start.since.iter().chain(&self.events[..at]);
        let silent = since.filter(|event| !matches!(event, Event::Note(_))).cloned();
        Start { base: self.start.base.clone(), since: silent.collect(), before: self.said(at) }
    }

    /// How many events there are before the database was open.
    pub fn opening(&self) -> usize {
        let opened = |event: &Event| matches!(event, Event::Note(line) if line.starts_with("O "));
        self.events.iter().position(opened).unwrap_or(self.events.len())
    }

    /// So many cuts: everywhere under every model, or else most of them near names.
    pub fn cuts(&self, wanted: u64, random: &mut Random) -> BTreeSet<(usize, Model)> {
        let (boundaries, wanted) = (self.boundaries(), wanted as usize);
        if boundaries.len() * Model::ALL.len() <= wanted {
            let all = boundaries.iter().flat_map(|at| Model::ALL.map(|model| (*at, model)));
            return all.collect();
        }
        let mut chosen = BTreeSet::new();
        while chosen.len() < wanted {
            let at = boundaries[random.below(boundaries.len() as u64) as usize];
            if random.chance(self.interest(at)) {
                chosen.insert((at, Model::ALL[random.below(Model::ALL.len() as u64) as usize]));
            }
        }
        chosen
    }

    /// How often to look there, of a hundred times. Syncs of the log are the most by far; names, and what comes right behind
    /// them, are where databases get it wrong. A write of several sectors that is about to be synced can be torn.
    fn interest(&self, at: usize) -> u64 {
        let near = &self.events[at.saturating_sub(NEAR)..(at + 1).min(self.events.len())];
        let is_renaming = |event: &Event| matches!(event, Event::Rename { .. });
        if at.abs_diff(self.opening()) <= NEAR || near.iter().any(is_renaming) {
            100
        } else if self.may_tear(at) {
            60
        } else if near.iter().any(Event::is_about_names) {
            40
        } else {
            20
        }
    }

    fn may_tear(&self, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|before| self.events.get(before));
        match (before, self.events.get(at)) {
            (Some(Event::Write { ino, bytes, .. }), Some(Event::Sync { ino: synced })) => {
                ino == synced && bytes.len() > SECTOR_BYTES
            }
            _ => false,
        }
    }

    /// The places where a cut may show something that others do not.
    pub fn boundaries(&self) -> Vec<usize> {
        // The end is one, too: all that was said was said by then.
        let is_one = |at: &usize| {
            let around = [at.checked_sub(1), Some(*at)].into_iter().flatten();
            *at == self.events.len()
                || around.filter_map(|at| self.events.get(at)).any(Event::is_boundary)
        };
        (0..=self.events.len()).filter(is_one).collect()
    }
}

/// Trims, sweeps and flushes while others write, so that these are cut off, too.
fn keep_house(db: &Database, writers: &[JoinHandle<()>], work: Work) -> Outcome<()> {
    let mut random = Random::of(&[work.seed, work.generation, 1]);
    // Whoever comes seldom has much to do at once.
    let often = random.chance(50);
    while !writers.iter().all(JoinHandle::is_finished) {
        thread::sleep(Duration::from_millis(5 + random.below(20)));
        if often {
            db.trim().map_err(|error| format!("trimming: {error}"))?;
        }
        db.sweep().map_err(|error| format!("sweeping: {error}"))?;
    }
    db.trim().map_err(|error| format!("trimming: {error}"))
}

/// Reads what processes have said.
pub fn runs(said: &[(u64, String)]) -> Outcome<Vec<Run>> {
    said.iter().map(|(generation, text)| Run::read(*generation, text)).collect()
}

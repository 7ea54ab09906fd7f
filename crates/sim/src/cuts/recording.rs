//! Records a drill on a recording disk.

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

/// The path of the database on the disk. Its parent directories are created with it.
pub const DATABASE: &str = "srv/data/db";

/// Events this soon after a rename may depend on it.
const NEAR: usize = 6;

/// Writes up to this size are atomic.
const SECTOR_BYTES: usize = 512;

/// The events of one process, and the state it started from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recording {
    /// The number of the process.
    pub generation: u64,
    /// The state it started from.
    pub start: Start,
    /// The recorded events.
    pub events: Vec<Event>,
}

/// The state from which a process starts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Start {
    /// The files that a power cut left.
    pub base: Image,
    /// Events of processes that were killed since that cut: visible, but unsynced ones are not durable.
    pub since: Vec<Event>,
    /// Journals of earlier processes, by process number.
    pub before: Vec<(u64, String)>,
}

impl Start {
    /// The files as programs see them.
    pub fn tree(&self) -> Tree {
        let mut tree = Tree::of(&self.base);
        self.since.iter().for_each(|event| tree.apply(event));
        tree
    }

    /// The disk state, durable and pending.
    pub fn platter(&self) -> Platter {
        let mut platter = Platter::of(&Tree::of(&self.base));
        self.since.iter().for_each(|event| platter.apply(event));
        platter
    }
}

/// A [`Voice`] that records the writers' journal on a tape.
pub struct Taped(pub Tape);

impl Voice for Taped {
    fn say(&self, line: &str) {
        self.0.push(Event::Note(line.to_owned()));
    }
}

impl Recording {
    /// Records writers that work on a disk.
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

    /// The files at the end of the recording.
    pub fn end(&self) -> Image {
        let mut tree = self.start.tree();
        self.events.iter().for_each(|event| tree.apply(event));
        tree.image()
    }

    /// The journals up to a cut, of this process and the earlier ones.
    pub fn said(&self, cut: usize) -> Vec<(u64, String)> {
        let notes = self.events[..cut].iter().filter_map(|event| match event {
            Event::Note(line) => Some(line.as_str()),
            _ => None,
        });
        let said = notes.fold(String::new(), |said, line| said + line + "\n");
        self.start.before.iter().cloned().chain([(self.generation, said)]).collect()
    }

    /// The state for the next process if power fails at `cut` and leaves these files.
    pub fn after_cut(&self, cut: usize, left: Image) -> Start {
        Start { base: left, since: Vec::new(), before: self.said(cut) }
    }

    /// The state for the next process if everything is durable.
    pub fn after_all(&self) -> Start {
        self.after_cut(self.events.len(), self.end())
    }

    /// The state for the next process if this one is killed: after a change of names or a write, while it was
    /// opening, or at any time.
    pub fn after_kill(&self, random: &mut Random) -> Start {
        let behind = |is_one: fn(&Event) -> bool| -> Vec<usize> {
            let all = self.events.iter().enumerate();
            all.filter(|(_, event)| is_one(event)).map(|(at, _)| at + 1).collect()
        };
        let places = match random.below(5) {
            0 => behind(Event::is_about_names),
            // Prefer the last renames sometimes.
            1 => self.last_renames().take([5, usize::MAX][random.below(2) as usize]).collect(),
            2 => behind(|event| matches!(event, Event::Write { .. })),
            3 => (0..=self.opening()).collect(),
            _ => (0..=self.events.len()).collect(),
        };
        let chosen = random.below(places.len().max(1) as u64) as usize;
        self.killed_at(places.get(chosen).copied().unwrap_or(0))
    }

    /// The positions right after each rename, the last one first.
    pub fn last_renames(&self) -> impl Iterator<Item = usize> {
        let all = self.events.iter().enumerate().rev();
        all.filter(|(_, event)| matches!(event, Event::Rename { .. })).map(|(at, _)| at + 1)
    }

    /// The state for the next process if this one is killed at `at`.
    pub fn killed_at(&self, at: usize) -> Start {
        let since = self.start.since.iter().chain(&self.events[..at]);
        let silent = since.filter(|event| !matches!(event, Event::Note(_))).cloned();
        Start { base: self.start.base.clone(), since: silent.collect(), before: self.said(at) }
    }

    /// The number of events before the database was open.
    pub fn opening(&self) -> usize {
        self.events
            .iter()
            .position(|event| matches!(event, Event::Note(line) if line.starts_with("O ")))
            .unwrap_or(self.events.len())
    }

    /// Chooses cuts: all boundaries with all models if they are few enough, else mostly near renames.
    pub fn cuts(&self, wanted: u64, random: &mut Random) -> BTreeSet<(usize, Model)> {
        let boundaries = self.boundaries();
        let wanted = wanted as usize;
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

    /// The probability of a cut at this boundary, in percent. Log syncs are by far the most frequent
    /// boundaries. But databases fail at name changes and right after them. A write of several sectors before
    /// its sync can be torn.
    fn interest(&self, at: usize) -> u64 {
        let near = &self.events[at.saturating_sub(NEAR)..(at + 1).min(self.events.len())];
        if at.abs_diff(self.opening()) <= NEAR
            || near.iter().any(|event| matches!(event, Event::Rename { .. }))
        {
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

    /// The positions at which a cut may have a distinct result.
    pub fn boundaries(&self) -> Vec<usize> {
        // The end is a boundary too, where the whole journal must hold.
        let is_one = |at: &usize| {
            let around = [at.checked_sub(1), Some(*at)].into_iter().flatten();
            *at == self.events.len()
                || around.filter_map(|at| self.events.get(at)).any(Event::is_boundary)
        };
        (0..=self.events.len()).filter(is_one).collect()
    }
}

/// Trims, sweeps and flushes while the writers run, so that cuts hit these too.
fn keep_house(db: &Database, writers: &[JoinHandle<()>], work: Work) -> Outcome<()> {
    let mut random = Random::of(&[work.seed, work.generation, 1]);
    // With infrequent calls, much work accumulates for one call.
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

/// Parses the journals of all processes.
pub fn runs(said: &[(u64, String)]) -> Outcome<Vec<Run>> {
    said.iter().map(|(generation, text)| Run::read(*generation, text)).collect()
}

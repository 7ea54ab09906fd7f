//! Durable state of a simulated disk, and its pending changes.

use super::event::{Event, Ino, Kind, ROOT};
use super::image::{Image, Node};
use super::model::Model;
use super::tree::{Tree, write};
use mainstay_conformance::random::Random;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// Unsynced changes, each with the position of its event on the tape.
type Pending<T> = Vec<(usize, T)>;

/// A simulated disk.
pub struct Platter {
    files: HashMap<Ino, File>,
    directories: HashMap<Ino, Directory>,
    /// Number of events applied.
    events: usize,
    /// The value of `events` at the last sync of any file or directory.
    last_sync: usize,
}

#[derive(Default)]
struct File {
    durable: Vec<u8>,
    /// The content as programs see it.
    live: Vec<u8>,
    pending: Pending<Change>,
    /// True if a sync has failed, so that parts of the visible content may never be written.
    dropped: bool,
}

enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Resize(u64),
}

#[derive(Default)]
struct Directory {
    durable: BTreeMap<String, Ino>,
    pending: Pending<Naming>,
}

enum Naming {
    Name(String, Ino),
    Unname(String),
}

impl Default for Platter {
    fn default() -> Platter {
        Platter::of(&Tree::default())
    }
}

impl Platter {
    /// A disk on which these files are durable.
    pub fn of(tree: &Tree) -> Platter {
        let mut platter =
            Platter { files: HashMap::new(), directories: HashMap::new(), events: 0, last_sync: 0 };
        platter.take_in(tree, ROOT);
        platter
    }

    fn take_in(&mut self, tree: &Tree, ino: Ino) {
        if let Some(bytes) = tree.bytes(ino) {
            let durable = bytes.to_vec();
            let live = bytes.to_vec();
            self.files.insert(ino, File { durable, live, ..File::default() });
        }
        if let Some(entries) = tree.entries(ino) {
            let durable = entries.clone();
            self.directories.insert(ino, Directory { durable, pending: Vec::new() });
            entries.values().for_each(|ino| self.take_in(tree, *ino));
        }
    }

    /// Applies an event.
    pub fn apply(&mut self, event: &Event) {
        let at = self.events;
        self.events += 1;
        match event {
            Event::Make { parent, name, ino, kind } => {
                match kind {
                    Kind::File => drop(self.files.insert(*ino, File::default())),
                    Kind::Directory => drop(self.directories.insert(*ino, Directory::default())),
                }
                self.note(*parent, at, Naming::Name(name.clone(), *ino));
            }
            Event::Write { ino, offset, bytes } => {
                self.change(*ino, at, Change::Write { offset: *offset, bytes: bytes.clone() });
            }
            Event::Resize { ino, len } => self.change(*ino, at, Change::Resize(*len)),
            Event::Rename { from, to } => {
                let Some(ino) = self.now(from.0).get(&from.1).copied() else { return };
                self.note(from.0, at, Naming::Unname(from.1.clone()));
                self.note(to.0, at, Naming::Name(to.1.clone(), ino));
            }
            Event::Link { ino, parent, name } => {
                self.note(*parent, at, Naming::Name(name.clone(), *ino));
            }
            Event::Remove { parent, name } => self.note(*parent, at, Naming::Unname(name.clone())),
            Event::Sync { ino } => self.sync(*ino),
            Event::Dropped { ino } => self.drop_pending(*ino),
            Event::Note(_) => {}
        }
    }

    fn change(&mut self, ino: Ino, at: usize, change: Change) {
        let file = self.files.entry(ino).or_default();
        change.apply(&mut file.live);
        let change = if file.dropped { change.whole_pages(&file.live) } else { change };
        file.pending.push((at, change));
    }

    /// Drops the pending writes: pages that could not be written count as clean. Lengths are metadata and
    /// stay pending.
    fn drop_pending(&mut self, ino: Ino) {
        let file = self.files.entry(ino).or_default();
        file.pending.retain(|(_, change)| matches!(change, Change::Resize(_)));
        file.dropped = true;
    }

    fn note(&mut self, directory: Ino, at: usize, naming: Naming) {
        self.directories.entry(directory).or_default().pending.push((at, naming));
    }

    /// The names of a directory as programs see them.
    fn now(&self, directory: Ino) -> BTreeMap<String, Ino> {
        self.directories.get(&directory).map(|of| of.with(|_| true)).unwrap_or_default()
    }

    fn sync(&mut self, ino: Ino) {
        self.last_sync = self.events;
        if let Some(file) = self.files.get_mut(&ino) {
            for (_, change) in std::mem::take(&mut file.pending) {
                change.apply(&mut file.durable);
            }
        }
        if let Some(directory) = self.directories.get_mut(&ino) {
            directory.durable = directory.with(|_| true);
            directory.pending.clear();
        }
    }

    /// The files that survive a power failure now.
    pub fn cut(&self, model: Model, random: &mut Random) -> Image {
        let fate = Fate::of(self, model, random);
        let mut image = Image::default();
        self.fill(&mut image, ROOT, Path::new(""), &fate, random);
        image
    }

    fn fill(
        &self,
        image: &mut Image,
        directory: Ino,
        path: &Path,
        fate: &Fate,
        random: &mut Random,
    ) {
        let Some(of) = self.directories.get(&directory) else { return };
        for (name, ino) in of.with(|at| fate.names(at)) {
            let path = path.join(name);
            match self.files.get(&ino) {
                Some(file) => image.put(path, Node::File(file.cut(fate, random))),
                None => {
                    image.put(path.clone(), Node::Directory);
                    self.fill(image, ino, &path, fate, random);
                }
            }
        }
    }
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write { offset, bytes: written } => write(bytes, *offset, written),
            Change::Resize(len) => bytes.resize(*len as usize, 0),
        }
    }

    /// A write to a page writes back the whole page, including data dropped there earlier.
    fn whole_pages(self, live: &[u8]) -> Change {
        let Change::Write { offset, bytes } = self else { return self };
        let page = 4096;
        let start = offset / page * page;
        let end = (offset + bytes.len() as u64).div_ceil(page) * page;
        let end = end.min(live.len() as u64);
        Change::Write { offset: start, bytes: live[start as usize..end as usize].to_vec() }
    }

    /// Applies a random half of the sectors of a write.
    fn apply_torn(&self, bytes: &mut Vec<u8>, sector: usize, random: &mut Random) {
        let Change::Write { offset, bytes: written } = self else { return self.apply(bytes) };
        let mut at = 0;
        while at < written.len() {
            let place = *offset as usize + at;
            let end = (at + sector - place % sector).min(written.len());
            if random.chance(50) {
                write(bytes, place as u64, &written[at..end]);
            }
            at = end;
        }
    }
}

impl File {
    fn cut(&self, fate: &Fate, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        match fate.model {
            Model::Nothing => {}
            Model::Everything => self.pending.iter().for_each(|(_, of)| of.apply(&mut bytes)),
            Model::Ordered => self.cut_in_order(&mut bytes, fate, random),
            Model::Some | Model::Torn512 | Model::Torn4096 => {
                self.pending.iter().for_each(|(_, of)| {
                    match (random.below(3), fate.model.sector()) {
                        (0, _) => {}
                        (1, Some(sector)) => of.apply_torn(&mut bytes, sector, random),
                        _ => of.apply(&mut bytes),
                    }
                });
            }
        }
        bytes
    }

    /// Appended data survives in order, together with its length. Overwrites survive in any order.
    fn cut_in_order(&self, bytes: &mut Vec<u8>, fate: &Fate, random: &mut Random) {
        let mut arrives = true;
        for (at, change) in &self.pending {
            match change {
                Change::Resize(_) if *at >= fate.committed => arrives = false,
                Change::Write { offset, bytes: written }
                    if *offset as usize + written.len() > bytes.len() =>
                {
                    // Not written back yet: until then the length does not cover it.
                    arrives &= random.chance(70);
                    if arrives {
                        change.apply(bytes);
                    }
                }
                Change::Write { .. } => match random.below(3) {
                    0 => {}
                    1 => change.apply_torn(bytes, 4096, random),
                    _ => change.apply(bytes),
                },
                Change::Resize(_) if arrives => change.apply(bytes),
                Change::Resize(_) => {}
            }
        }
    }
}

impl Directory {
    /// The names after applying the pending changes that survive.
    fn with(&self, arrives: impl Fn(usize) -> bool) -> BTreeMap<String, Ino> {
        let mut names = self.durable.clone();
        for (at, naming) in &self.pending {
            match naming {
                _ if !arrives(*at) => {}
                Naming::Name(name, ino) => drop(names.insert(name.clone(), *ino)),
                Naming::Unname(name) => drop(names.remove(name)),
            }
        }
        names
    }
}

/// Decides which name changes survive. Both sides of a rename survive, or neither.
struct Fate {
    model: Model,
    /// For `Ordered`: all events before this one survive.
    committed: usize,
    /// For random models: these events survive.
    chosen: BTreeSet<usize>,
}

impl Fate {
    fn of(platter: &Platter, model: Model, random: &mut Random) -> Fate {
        let pending = platter.directories.values().flat_map(|of| &of.pending).map(|(at, _)| *at);
        let pending: BTreeSet<usize> = pending.collect();
        let since = platter.events - platter.last_sync;
        let committed = platter.last_sync + random.below(since as u64 + 1) as usize;
        let chosen = pending.into_iter().filter(|_| random.chance(50)).collect();
        Fate { model, committed, chosen }
    }

    fn names(&self, at: usize) -> bool {
        match self.model {
            Model::Nothing => false,
            Model::Everything => true,
            Model::Ordered => at < self.committed,
            Model::Some | Model::Torn512 | Model::Torn4096 => self.chosen.contains(&at),
        }
    }
}

//! The files as programs see them.

use super::event::{Event, Ino, Kind, ROOT};
use super::image::{Image, Node};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// An in-memory file system.
#[derive(Clone, Debug)]
pub struct Tree {
    files: HashMap<Ino, Vec<u8>>,
    directories: HashMap<Ino, BTreeMap<String, Ino>>,
    next: Ino,
}

impl Default for Tree {
    fn default() -> Tree {
        let directories = HashMap::from([(ROOT, BTreeMap::new())]);
        Tree { files: HashMap::new(), directories, next: ROOT + 1 }
    }
}

impl Tree {
    /// Builds a tree from an image.
    pub fn of(image: &Image) -> Tree {
        let mut tree = Tree::default();
        // Directories come before their children.
        for (path, node) in image.nodes() {
            let Some((parent, name)) = tree.place(path) else { continue };
            let ino = tree.next_ino();
            let (kind, bytes) = match node {
                Node::File(bytes) => (Kind::File, bytes.clone()),
                Node::Directory => (Kind::Directory, Vec::new()),
            };
            tree.apply(&Event::Make { parent, name, ino, kind });
            if kind == Kind::File {
                tree.apply(&Event::Write { ino, offset: 0, bytes });
            }
        }
        tree
    }

    /// Converts the tree to an image.
    pub fn image(&self) -> Image {
        let mut image = Image::default();
        self.fill(&mut image, ROOT, Path::new(""));
        image
    }

    fn fill(&self, image: &mut Image, directory: Ino, path: &Path) {
        for (name, ino) in self.entries(directory).into_iter().flatten() {
            let path = path.join(name);
            match self.files.get(ino) {
                Some(bytes) => image.put(path, Node::File(bytes.clone())),
                None => {
                    image.put(path.clone(), Node::Directory);
                    self.fill(image, *ino, &path);
                }
            }
        }
    }

    fn place(&self, path: &Path) -> Option<(Ino, String)> {
        let mut parent = ROOT;
        for part in path.parent()?.iter() {
            parent = self.find(parent, part.to_str()?)?;
        }
        Some((parent, path.file_name()?.to_str()?.to_owned()))
    }

    /// The inode at a path.
    pub fn at(&self, path: &Path) -> Option<Ino> {
        let (parent, name) = self.place(path)?;
        self.find(parent, &name)
    }

    /// Allocates an unused inode number.
    pub fn next_ino(&mut self) -> Ino {
        self.next += 1;
        self.next - 1
    }

    /// The inode with this name in a directory.
    pub fn find(&self, parent: Ino, name: &str) -> Option<Ino> {
        self.directories.get(&parent)?.get(name).copied()
    }

    /// The entries of a directory; `None` if it is not a directory.
    pub fn entries(&self, ino: Ino) -> Option<&BTreeMap<String, Ino>> {
        self.directories.get(&ino)
    }

    /// The content of a file; `None` if it is not a file.
    pub fn bytes(&self, ino: Ino) -> Option<&[u8]> {
        self.files.get(&ino).map(Vec::as_slice)
    }

    /// The path of an inode, for messages.
    pub fn path(&self, ino: Ino) -> PathBuf {
        self.path_below(ROOT, ino, Path::new("")).unwrap_or_else(|| PathBuf::from("?"))
    }

    fn path_below(&self, directory: Ino, wanted: Ino, path: &Path) -> Option<PathBuf> {
        if directory == wanted {
            return Some(path.to_owned());
        }
        let entries = self.directories.get(&directory)?;
        entries.iter().find_map(|(name, ino)| {
            if *ino == wanted {
                Some(path.join(name))
            } else {
                self.path_below(*ino, wanted, &path.join(name))
            }
        })
    }

    /// Applies an event, which must be possible.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Make { parent, name, ino, kind } => {
                self.next = self.next.max(*ino + 1);
                match kind {
                    Kind::File => drop(self.files.insert(*ino, Vec::new())),
                    Kind::Directory => drop(self.directories.insert(*ino, BTreeMap::new())),
                }
                self.name(*parent, name, *ino);
            }
            Event::Write { ino, offset, bytes } => {
                write(self.files.entry(*ino).or_default(), *offset, bytes);
            }
            Event::Resize { ino, len } => {
                self.files.entry(*ino).or_default().resize(*len as usize, 0);
            }
            Event::Rename { from, to } => {
                let moved = self.directories.get_mut(&from.0).and_then(|of| of.remove(&from.1));
                if let Some(ino) = moved {
                    self.name(to.0, &to.1, ino);
                }
            }
            Event::Link { ino, parent, name } => self.name(*parent, name, *ino),
            Event::Remove { parent, name } => {
                self.directories.entry(*parent).or_default().remove(name);
            }
            Event::Sync { .. } | Event::Dropped { .. } | Event::Note(_) => {}
        }
    }

    fn name(&mut self, parent: Ino, name: &str, ino: Ino) {
        self.directories.entry(parent).or_default().insert(name.to_owned(), ino);
    }
}

/// Writes bytes into a file's content. A gap is filled with zeros.
pub fn write(file: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let start = offset as usize;
    let end = offset as usize + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[start..end].copy_from_slice(bytes);
}

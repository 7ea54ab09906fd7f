//! A snapshot of all files of a disk, by path.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file or a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Node {
    /// A file with its content.
    File(Vec<u8>),
    /// A directory.
    Directory,
}

/// Files and directories by path, parents before their children.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image(BTreeMap<PathBuf, Node>);

impl Image {
    /// Reads a directory recursively.
    pub fn read(directory: &Path) -> io::Result<Image> {
        let mut image = Image::default();
        image.read_below(directory, Path::new(""))?;
        Ok(image)
    }

    fn read_below(&mut self, directory: &Path, path: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let path = path.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                self.put(path.clone(), Node::Directory);
                self.read_below(&entry.path(), &path)?;
            } else {
                self.put(path, Node::File(fs::read(entry.path())?));
            }
        }
        Ok(())
    }

    /// Writes the image to a directory, replacing its content.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir_all(directory)?,
        }
        for (path, node) in &self.0 {
            match node {
                Node::File(bytes) => fs::write(directory.join(path), bytes)?,
                Node::Directory => fs::create_dir(directory.join(path))?,
            }
        }
        Ok(())
    }

    /// Adds or replaces an entry.
    pub fn put(&mut self, path: PathBuf, node: Node) {
        self.0.insert(path, node);
    }

    /// A copy without a path and everything below it.
    pub fn without(&self, path: &Path) -> Image {
        Image(
            self.0
                .iter()
                .filter(|(at, _)| !at.starts_with(path))
                .map(|(at, node)| (at.clone(), node.clone()))
                .collect(),
        )
    }

    /// All entries, parents first.
    pub fn nodes(&self) -> impl Iterator<Item = (&PathBuf, &Node)> {
        self.0.iter()
    }

    /// The content of a file.
    pub fn bytes(&self, path: &Path) -> Option<&[u8]> {
        match self.0.get(path) {
            Some(Node::File(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// The content of a file, mutable.
    pub fn bytes_mut(&mut self, path: &Path) -> Option<&mut Vec<u8>> {
        match self.0.get_mut(path) {
            Some(Node::File(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// All files with their content.
    pub fn files(&self) -> impl Iterator<Item = (&PathBuf, &Vec<u8>)> {
        self.0.iter().filter_map(|(path, node)| match node {
            Node::File(bytes) => Some((path, bytes)),
            Node::Directory => None,
        })
    }
}

//! The files of a whole disk, by their paths.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file or a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Node {
    /// A file with its bytes.
    File(Vec<u8>),
    /// A directory.
    Directory,
}

/// Files and directories by their paths, parents before what is in them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image(BTreeMap<PathBuf, Node>);

impl Image {
    /// Reads a directory with all that is in it.
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

    /// Writes it to a directory, in place of all that is there.
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

    /// Adds something.
    pub fn put(&mut self, path: PathBuf, node: Node) {
        self.0.insert(path, node);
    }

    /// The same, without something and all that is in it.
    pub fn without(&self, path: &Path) -> Image {
        let stays = |(at, _): &(&PathBuf, &Node)| !at.starts_with(path);
        Image(self.0.iter().filter(stays).map(|(at, node)| (at.clone(), node.clone())).collect())
    }

    /// Everything, parents first.
    pub fn nodes(&self) -> impl Iterator<Item = (&PathBuf, &Node)> {
        self.0.iter()
    }

    /// The bytes of a file.
    pub fn bytes(&self, path: &Path) -> Option<&[u8]> {
        match self.0.get(path) {
            Some(Node::File(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn bytes_mut(&mut self, path: &Path) -> Option<&mut Vec<u8>> {
        match self.0.get_mut(path) {
            Some(Node::File(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// The files with their bytes.
    pub fn files(&self) -> impl Iterator<Item = (&PathBuf, &Vec<u8>)> {
        self.0.iter().filter_map(|(path, node)| match node {
            Node::File(bytes) => Some((path, bytes)),
            Node::Directory => None,
        })
    }
}

//! External merge sort: spills sorted runs to temporary files and merges them while reading.

use crate::fs::disk_reserve::DiskReserve;
use crate::fs::error::io_error;
use mainstay_model::{Result, Revision};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Number of bytes that are sorted in memory before they are spilled.
const RUN_BYTES: usize = 32 << 20;

type Item = (Revision, Vec<u8>, Vec<u8>);

/// Takes (revision, name, entry) triples in any order and returns them sorted by revision, then name.
pub(crate) struct ExternalSorter {
    path: PathBuf,
    spare: DiskReserve,
    items: Vec<Item>,
    bytes: usize,
    runs: Vec<File>,
}

impl ExternalSorter {
    /// Spills to files beside `path`. The files are unlinked right after creation, so they disappear with
    /// the process.
    pub fn beside(path: &Path, spare: DiskReserve) -> Result<ExternalSorter> {
        let mut path = path.as_os_str().to_owned();
        path.push(".sort");
        let path = PathBuf::from(path);
        let items = Vec::new();
        let runs = Vec::new();
        Ok(ExternalSorter { path, spare, items, bytes: 0, runs })
    }

    pub fn push(&mut self, revision: Revision, name: &[u8], entry: &[u8]) -> Result<()> {
        // 64: approximate memory overhead of an item.
        self.bytes += name.len() + entry.len() + 64;
        self.items.push((revision, name.to_vec(), entry.to_vec()));
        if self.bytes >= RUN_BYTES { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> Result<()> {
        self.items.sort_unstable();
        let steps = || -> std::io::Result<File> {
            let options = File::options().read(true).write(true).create_new(true).clone();
            let file = options.open(&self.path)?;
            std::fs::remove_file(&self.path)?;
            self.spare.check(&file, self.bytes as u64)?;
            let mut out = BufWriter::with_capacity(1 << 20, file);
            for item in &self.items {
                write_item(&mut out, item)?;
            }
            let mut file = out.into_inner().map_err(|error| error.into_error())?;
            file.seek(SeekFrom::Start(0))?;
            Ok(file)
        };
        let run = steps().map_err(|error| io_error("sort in", &self.path, &error))?;
        self.runs.push(run);
        self.items.clear();
        self.bytes = 0;
        Ok(())
    }

    /// Returns all items in order.
    pub fn sorted(mut self) -> Result<MergedRuns> {
        self.items.sort_unstable();
        let items = std::mem::take(&mut self.items).into_iter();
        let files = self
            .runs
            .drain(..)
            .map(|file| SortedRun::File(BufReader::with_capacity(1 << 18, file)));
        let runs: Vec<SortedRun> = files.chain([SortedRun::Memory(items)]).collect();
        let mut sorted = MergedRuns { runs, heap: BinaryHeap::new(), path: self.path.clone() };
        for run in 0..sorted.runs.len() {
            sorted.refill(run)?;
        }
        Ok(sorted)
    }
}

enum SortedRun {
    File(BufReader<File>),
    Memory(std::vec::IntoIter<Item>),
}

/// K-way merge of all runs, with a binary heap.
pub(crate) struct MergedRuns {
    runs: Vec<SortedRun>,
    heap: BinaryHeap<Reverse<(Item, usize)>>,
    path: PathBuf,
}

impl MergedRuns {
    fn refill(&mut self, run: usize) -> Result<()> {
        let item = match &mut self.runs[run] {
            SortedRun::Memory(items) => items.next(),
            SortedRun::File(file) => {
                read_item(file).map_err(|error| io_error("read", &self.path, &error))?
            }
        };
        self.heap.extend(item.map(|item| Reverse((item, run))));
        Ok(())
    }
}

impl Iterator for MergedRuns {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Result<Item>> {
        let Reverse((item, run)) = self.heap.pop()?;
        Some(self.refill(run).map(|()| item))
    }
}

fn write_item(out: &mut impl Write, (revision, name, entry): &Item) -> std::io::Result<()> {
    out.write_all(&revision.to_le_bytes())?;
    out.write_all(&(name.len() as u32).to_le_bytes())?;
    out.write_all(&(entry.len() as u32).to_le_bytes())?;
    out.write_all(name)?;
    out.write_all(entry)
}

fn read_item(input: &mut impl Read) -> std::io::Result<Option<Item>> {
    let mut head = [0; 16];
    if input.read(&mut head[..1])? == 0 {
        return Ok(None);
    }
    input.read_exact(&mut head[1..])?;
    let number = |range: std::ops::Range<usize>| {
        head[range].iter().rev().fold(0_u64, |n, &byte| n << 8 | u64::from(byte))
    };
    let mut name = vec![0; number(8..12) as usize];
    let mut entry = vec![0; number(12..16) as usize];
    input.read_exact(&mut name)?;
    input.read_exact(&mut entry)?;
    Ok(Some((number(0..8), name, entry)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_back_in_order_from_memory_and_files() {
        let directory = tempfile::tempdir().unwrap();
        let mut sorter =
            ExternalSorter::beside(&directory.path().join("x"), DiskReserve::default()).unwrap();
        let count = 40_000_u64;
        for i in 0..count {
            let revision = i.wrapping_mul(2_654_435_761) % count;
            sorter.push(revision, &revision.to_be_bytes(), &[7; 2000]).unwrap();
        }
        assert!(sorter.runs.len() > 1, "some of it went to files");
        let sorted: Vec<u64> = sorter.sorted().unwrap().map(|item| item.unwrap().0).collect();
        assert!(sorted.is_sorted());
        assert_eq!(sorted.len() as u64, count);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left");
    }
}

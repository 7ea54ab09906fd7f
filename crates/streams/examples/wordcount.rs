//! Counts the words of a file with a million lines, exactly once despite crashes.
//!
//! ```text
//!   cargo run --example wordcount                   counts, with a checkpoint each second
//!   kill it, pull the plug, start it again          it continues where it stopped
//!   cargo run --example wordcount -- --fresh        starts from the beginning
//!   cargo run --example wordcount -- --lines 10000  with a smaller file
//! ```
//!
//! While it runs, other programs can read its state: the space `counts` of the database in its directory.

use indicatif::{ProgressBar, ProgressStyle};
use mainstay::{Clock, Database, Durability, Keyed, SystemClock};
use mainstay_model::{Code, Error, LogicalTime, Result};
use mainstay_streams::{
    CheckpointStore, Checkpoints, FileSink, Job, Pipeline, Source, SourceItem, StatefulOperator,
    Worker,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CHECKPOINT_EACH_US: u64 = 1_000_000;
const BATCH: usize = 8_192;
const WORDS: [&str; 24] = [
    "anchor", "bell", "cabin", "deck", "engine", "fathom", "galley", "harbour", "inlet", "jib",
    "keel", "lantern", "mast", "north", "oar", "pilot", "quay", "rudder", "sail", "tide", "unmoor",
    "vessel", "wake", "yard",
];

/// The state of a word is its count. The outputs are words with their counts.
type CountWorker = Worker<StatefulOperator<String, u64, (String, u64)>>;

fn main() {
    if let Err(error) = run() {
        eprintln!("wordcount: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<()> {
    let arguments = Arguments::read()?;
    let directory = &arguments.directory;
    if arguments.fresh && directory.exists() {
        std::fs::remove_dir_all(directory).map_err(|error| failed("remove", directory, &error))?;
    }
    std::fs::create_dir_all(directory).map_err(|error| failed("make", directory, &error))?;
    let text = directory.join("text");
    generate(&text, arguments.lines)?;

    let db = Database::open(directory.join("db"))?;
    // Checkpoints are fsynced, so the writes between them need not be. A crash may leave any consistent state
    // in between.
    let counts = db.keyed("counts")?.durability(Durability::Memory);
    let mut worker = open(directory, &text, counts.clone())?;
    let length = text.metadata().map_err(|error| failed("look at", &text, &error))?.len();
    work(&mut worker, length)?;

    let counted = all(&counts)?;
    show(&counted);
    let expected = recount(&text)?;
    let total: u64 = counted.values().sum();
    if counted == expected {
        println!("{total} words: exactly what a plain count of the file says")
    } else {
        return Err(Error::new(Code::CorruptData, "the counts are wrong"));
    }
    println!("start it again and it has nothing to do; with --fresh it begins from the beginning");
    Ok(())
}

/// Builds the pipeline, which continues from its last checkpoint.
fn open(directory: &Path, text: &Path, counts: Keyed) -> Result<CountWorker> {
    let count = |count: Option<u64>, word: &String, _| {
        let count = count.unwrap_or(0) + 1;
        // Every ten-thousandth occurrence is an output.
        let told = count.is_multiple_of(10_000).then(|| (word.clone(), count));
        Ok((Some(count), told.into_iter().collect()))
    };
    let pipeline = Pipeline::of(StatefulOperator::new("counts", String::clone, count))
        .source(FileWords::open(text)?)
        .sink(FileSink::new("told", directory.join("told")))
        .batch(BATCH);
    let store = CheckpointStore::directory(directory.join("checkpoints"))?;
    let checkpoints = Checkpoints::open(store, Job::new("wordcount", "counts"))?.keep(3);
    let worker = Worker::open(pipeline, Arc::new(counts), checkpoints)?;
    match worker.latest() {
        Some(latest) => println!("going on; the last checkpoint was {}", latest.checkpoint),
        None => println!("beginning; kill me whenever you like, and start me again"),
    }
    Ok(worker)
}

fn work(worker: &mut CountWorker, length: u64) -> Result<()> {
    let style = "{bar:40} {percent:>3} %  {bytes} of {total_bytes}  {bytes_per_sec}  {msg}";
    let bar = ProgressBar::new(length)
        .with_style(ProgressStyle::with_template(style).unwrap_or(ProgressStyle::default_bar()));
    let clock = SystemClock::new();
    let mut last_us = 0;
    loop {
        let progress = worker.step()?;
        let now_us = clock.monotonic_us();
        if progress.ended || now_us - last_us >= CHECKPOINT_EACH_US {
            let manifest = worker.checkpoint()?;
            last_us = now_us;
            bar.set_message(format!("checkpoint {}", manifest.checkpoint));
        }
        bar.set_position(worker.pipeline().source_positions().values().sum());
        if progress.ended {
            bar.finish();
            return Ok(());
        }
    }
}

/// Reads all counts, as any other program could.
fn all(counts: &Keyed) -> Result<BTreeMap<String, u64>> {
    let page = counts.scan(b"", None, 100_000)?;
    let read = |(key, state): (Vec<u8>, mainstay::State)| {
        let count = serde_json::from_slice(&state.value).unwrap_or(0);
        (String::from_utf8_lossy(&key).into_owned(), count)
    };
    Ok(page.states.into_iter().map(read).collect())
}

fn show(counts: &BTreeMap<String, u64>) {
    let mut by_count: Vec<_> = counts.iter().collect();
    by_count.sort_by_key(|(word, count)| (std::cmp::Reverse(**count), word.as_str()));
    for (word, count) in by_count.iter().take(5) {
        println!("{count:>9}  {word}");
    }
}

/// Counts the words without the pipeline, for comparison.
fn recount(text: &Path) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    let file = File::open(text).map_err(|error| failed("open", text, &error))?;
    for line in BufReader::new(file).lines() {
        let line = line.map_err(|error| failed("read", text, &error))?;
        for word in line.split(' ').filter(|word| !word.is_empty()) {
            *counts.entry(word.to_owned()).or_default() += 1;
        }
    }
    Ok(counts)
}

/// Writes the file unless it exists: one to three words per line, some of them rare.
fn generate(path: &Path, lines: u64) -> Result<()> {
    let wanted = path.with_extension(lines.to_string());
    if wanted.exists() && path.exists() {
        return Ok(());
    }
    if path.exists() {
        let message =
            format!("{} has another number of lines: begin anew with --fresh", path.display());
        return Err(Error::new(Code::InvalidArgument, message));
    }
    let part = path.with_extension("part");
    let written = File::create(&part).and_then(|file| {
        let mut out = BufWriter::new(file);
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for line in 0..lines {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(line | 1);
            let draw = |shift: u32| WORDS[(random >> shift) as usize % WORDS.len()];
            write!(out, "{}", draw(33))?;
            if random >> 62 > 0 {
                write!(out, " {}", draw(40))?;
            }
            if random >> 62 > 1 {
                write!(out, " word-{}", (random >> 20) % 5_000)?;
            }
            writeln!(out)?;
        }
        out.into_inner()?.sync_all()
    });
    let named = written.and_then(|()| std::fs::rename(&part, path));
    named
        .and_then(|()| File::create(&wanted).map(drop))
        .map_err(|error| failed("write", path, &error))
}

/// The words of a file as a source. A word's time and position are its offset in the file, so a word that is
/// read again is recognized.
struct FileWords {
    path: PathBuf,
    file: BufReader<File>,
    offset: u64,
}

impl FileWords {
    fn open(path: &Path) -> Result<FileWords> {
        let file = File::open(path).map_err(|error| failed("open", path, &error))?;
        Ok(FileWords {
            path: path.to_owned(),
            file: BufReader::with_capacity(1 << 20, file),
            offset: 0,
        })
    }

    /// Consumes bytes as long as they belong to a word, or to the space between words.
    fn take(&mut self, of_words: bool, into: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let held = self.file.fill_buf()?;
            let is_blank = |byte: &u8| matches!(byte, b' ' | b'\n');
            let end = held.iter().position(|byte| is_blank(byte) == of_words);
            let taken = end.unwrap_or(held.len());
            into.extend_from_slice(&held[..taken]);
            let done = end.is_some() || held.is_empty();
            self.file.consume(taken);
            self.offset += taken as u64;
            if done {
                return Ok(());
            }
        }
    }
}

impl Source for FileWords {
    type Item = String;

    fn name(&self) -> &str {
        "text"
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        self.offset = position;
        let sought = self.file.seek(SeekFrom::Start(position));
        sought.map(drop).map_err(|error| failed("seek in", &self.path, &error))
    }

    fn next(&mut self) -> Result<Option<SourceItem<String>>> {
        let mut word = Vec::new();
        let skipped = self.take(false, &mut Vec::new());
        let start = self.offset;
        let taken = skipped.and_then(|()| self.take(true, &mut word));
        taken.map_err(|error| failed("read", &self.path, &error))?;
        if word.is_empty() {
            return Ok(None);
        }
        let item = String::from_utf8_lossy(&word).into_owned();
        Ok(Some(SourceItem { item, time: LogicalTime::new(0, start), position: self.offset }))
    }
}

struct Arguments {
    directory: PathBuf,
    lines: u64,
    fresh: bool,
}

impl Arguments {
    fn read() -> Result<Arguments> {
        let directory = std::env::temp_dir().join("mainstay-wordcount");
        let mut read = Arguments { directory, lines: 1_000_000, fresh: false };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--fresh" => read.fresh = true,
                "--lines" => read.lines = number(words.next())?,
                "--dir" => read.directory = words.next().map(PathBuf::from).ok_or_else(usage)?,
                _ => return Err(usage()),
            }
        }
        Ok(read)
    }
}

fn number(word: Option<String>) -> Result<u64> {
    word.and_then(|word| word.parse().ok()).filter(|lines| *lines > 0).ok_or_else(usage)
}

fn usage() -> Error {
    let message = "usage: wordcount [--lines N] [--dir DIRECTORY] [--fresh]";
    Error::new(Code::InvalidArgument, message)
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::new(Code::Io, format!("cannot {what} {}: {error}", path.display()))
}

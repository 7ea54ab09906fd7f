//! Tests of the log, one property per file.

mod damage;
mod disk;
mod doctor;
mod full;
mod readers;
mod rolling;
mod round_trip;
mod tail;

use std::sync::Arc;

use mainstay_model::{Error, Result, Revision};

use super::*;

const ID: DatabaseId = DatabaseId(*b"database-of-test");
const SMALL: LogOptions = LogOptions { segment_bytes: 4096, owner: 1 };

/// A log being written in memory.
struct Bench {
    files: Arc<MemoryFiles>,
    log: Log,
    writer: LogWriter,
    builder: FrameBuilder,
    synced: Revision,
}

impl Bench {
    fn new() -> Bench {
        let files = Arc::new(MemoryFiles::new());
        let (log, writer) = Log::create(files.clone(), ID, 1, SMALL).unwrap();
        Bench { files, log, writer, builder: FrameBuilder::new(0, &ID), synced: 0 }
    }

    /// Writes one frame of `count` transactions with entries of `bytes` bytes.
    fn frame(&mut self, count: u64, bytes: usize) -> Result<()> {
        let first = self.writer.end() + 1;
        let out = encode(&mut self.builder, first, count, bytes, self.synced);
        let written = self.writer.write(&out, first, first + count - 1, self.builder.chain());
        if written.is_err() {
            self.builder.reset(self.writer.chain());
        }
        written
    }

    fn sync(&mut self) {
        self.writer.sync().unwrap();
        self.synced = self.writer.end();
    }

    /// Writes and syncs frames, each of two transactions.
    fn synced_frames(mut self, frames: usize) -> Bench {
        for _ in 0..frames {
            self.frame(2, 20).unwrap();
            self.sync();
        }
        self
    }

    /// Writes frames of about 450 bytes until the log has `count` segments.
    fn segments(mut self, count: usize) -> Bench {
        while self.names().len() < count {
            self.frame(1, 400).unwrap();
            self.sync();
        }
        self
    }

    fn names(&self) -> Vec<String> {
        segment_names(&*self.files)
    }
}

fn segment_names(files: &dyn Files) -> Vec<String> {
    let names = files.list().unwrap();
    names.into_iter().filter(|name| segment::parse_name(name).is_some()).collect()
}

fn entry(revision: Revision, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (revision as usize * 7 + at) as u8).collect()
}

/// Encodes frames, one after the other.
struct FrameBuilder {
    chain: Chain,
    frame: Option<FrameBuffer>,
    payload: FramePayload,
}

impl FrameBuilder {
    fn new(crc: u32, database: &DatabaseId) -> FrameBuilder {
        FrameBuilder {
            chain: Chain::new(crc, database),
            frame: None,
            payload: FramePayload::default(),
        }
    }

    fn chain(&self) -> u32 {
        self.chain.crc()
    }

    /// Returns to the frame with this crc, because later frames were not written.
    fn reset(&mut self, crc: u32) {
        self.chain = Chain::new(crc, &ID);
    }

    fn begin(&mut self, out: &mut Vec<u8>, first: Revision) {
        self.frame = Some(FrameBuffer::begin(out, first));
    }

    fn transaction(&mut self, stamp: u64, request: &[u8], effects: usize) {
        self.payload.transaction(stamp, request, effects);
    }

    fn effect(&mut self, key: &[u8], entry: &[u8]) {
        self.payload.effect(key, entry);
    }

    fn finish(&mut self, out: &mut Vec<u8>, synced: Revision) {
        let mut frame = self.frame.take().unwrap();
        frame.append(out, &self.payload);
        self.payload.clear();
        let end = out.len();
        self.chain.seal(out, &frame, end, synced);
    }
}

fn encode(
    builder: &mut FrameBuilder,
    first: Revision,
    count: u64,
    bytes: usize,
    synced: Revision,
) -> Vec<u8> {
    let mut out = Vec::new();
    builder.begin(&mut out, first);
    for revision in first..first + count {
        builder.transaction(revision * 1000, format!("r{revision}").as_bytes(), 1);
        builder.effect(&revision.to_be_bytes(), &entry(revision, bytes));
    }
    builder.finish(&mut out, synced);
    out
}

/// Opens a copy of the files. Returns the revisions visited and the result of the recovery.
fn reopen(files: &MemoryFiles, after: Revision) -> (Vec<Revision>, RecoveredLog, Log, LogWriter) {
    let mut seen = Vec::new();
    let (log, writer, recovered) =
        Log::open(Arc::new(files.copy()), ID, after, SMALL, &mut |frame| {
            for transaction in frame.transactions() {
                let transaction = transaction?;
                assert_eq!(transaction.stamp, transaction.revision * 1000);
                seen.push(transaction.revision);
            }
            Ok(())
        })
        .unwrap();
    (seen, recovered, log, writer)
}

/// Opens these files and returns the error. A refusal must not change any file.
fn refused(files: MemoryFiles, after: Revision) -> Error {
    let before = contents(&files);
    let files = Arc::new(files);
    let error = Log::open(files.clone(), ID, after, SMALL, &mut |_| Ok(())).map(drop).unwrap_err();
    assert!(contents(&files) == before, "a refusal changes nothing");
    error
}

fn contents(files: &MemoryFiles) -> Vec<(String, Vec<u8>)> {
    let names = files.list().unwrap();
    names.into_iter().map(|name| (name.clone(), bytes_of(files, &name))).collect()
}

fn bytes_of(files: &dyn Files, name: &str) -> Vec<u8> {
    let file = files.open(name).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

/// Flips bits of one byte.
fn flip(files: &MemoryFiles, name: &str, offset: u64, bits: u8) {
    let file = files.open(name).unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, offset).unwrap();
    file.write_at(&[byte[0] ^ bits], offset).unwrap();
}

fn read_all(reader: &mut LogReader, upto: Revision) -> Vec<Revision> {
    let mut seen = Vec::new();
    while let Some(frame) = reader.next(upto).unwrap() {
        seen.extend(frame.transactions().map(|transaction| transaction.unwrap().revision));
    }
    seen
}

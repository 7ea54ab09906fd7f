//! The child: opens the database and writes until it is killed.

use crate::drill::{Voice, WRITERS, Work, options, write};
use mainstay::{Code, Error, Result};
use mainstay_conformance::random::Random;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::exit;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Writes whole lines to the parent. Ends the process when the parent has ended.
struct Pipe(File);

impl Voice for Pipe {
    fn say(&self, line: &str) {
        // One system call per line, so that a line arrives completely or not at all.
        if (&self.0).write_all(format!("{line}\n").as_bytes()).is_err() {
            exit(0);
        }
        // A violation ends the process.
        if line.starts_with("X ") {
            exit(3);
        }
    }
}

/// Runs the child. Returns only after an error.
pub fn run(directory: &Path, seed: u64, generation: u64) -> Result<()> {
    let out = std::io::stdout().as_fd().try_clone_to_owned();
    let out = out.map_err(|error| Error::new(Code::Io, format!("no standard output: {error}")))?;
    let pipe: Arc<dyn Voice> = Arc::new(Pipe(File::from(out)));
    let db = options().open(directory).inspect_err(|error| pipe.alarm("opening", error))?;
    let mut random = Random::of(&[seed, generation, WRITERS]);
    let writers = WRITERS;
    let operations = u64::MAX;
    let work = Work { seed, generation, writers, operations, faulty: false };
    let writers = write(&db, &pipe, work);
    loop {
        thread::sleep(Duration::from_millis(10 + random.below(150)));
        if writers.iter().any(thread::JoinHandle::is_finished) {
            pipe.alarm("panic", &Error::new(Code::Unsupported, "a writer ended"));
        }
        db.trim().inspect_err(|error| pipe.alarm("trimming", error))?;
        db.sweep().inspect_err(|error| pipe.alarm("sweeping", error))?;
    }
}

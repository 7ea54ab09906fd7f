//! The work of a process while its disk fails.

use crate::drill::{Outcome, Voice, Work, all_cells, write};
use mainstay::{Clock, Code, Database, SystemClock};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The most time until writes resume once the disk has room again, in microseconds.
const RESUME_US: u64 = 20_000_000;

/// Writes and runs maintenance until all writers have ended.
pub fn live_through(db: &Database, voice: &Arc<dyn Voice>, work: Work) -> Outcome<()> {
    let writers = write(db, voice, work);
    while !writers.iter().all(JoinHandle::is_finished) {
        thread::sleep(Duration::from_millis(2));
        // These may fail as well, but must not lose any write.
        let _ = db.trim();
        let _ = db.sweep();
    }
    let _ = db.trim();
    for writer in writers {
        writer.join().map_err(|_| "a writer panicked")?;
    }
    Ok(())
}

/// Checks that reads succeed although the disk refuses writes.
pub fn look(db: &Database) -> Outcome<()> {
    read(db).map_err(|error| format!("reading, while the disk failed: {error}"))
}

fn read(db: &Database) -> mainstay::Result<()> {
    for name in all_cells() {
        db.cells().get_versioned(&name)?;
        db.records().get(&name)?;
    }
    db.cells().list("", None, 1000)?;
    db.sessions().list(None, 1000)?;
    db.branches();
    Ok(())
}

/// Checks that writes resume once the disk has room again.
pub fn go_on(db: &Database) -> Outcome<()> {
    let clock = SystemClock::new();
    let begun = clock.monotonic_us();
    loop {
        match db.sync() {
            Ok(_) => return Ok(()),
            Err(error) if clock.monotonic_us() - begun > RESUME_US => {
                let last = db.stats().last_failure;
                return Err(format!("writing does not go on with room again: {error} ({last:?})"));
            }
            Err(error) if error.code() == Code::SyncFailed => {
                return Err(format!("a full disk was taken for a broken one: {error}"));
            }
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

//! The maintenance thread: flushes, compacts and fills the disk while the workers run.

use super::setting::{Home, Setting};
use crate::drill::Outcome;
use mainstay::{CellCommand, Code, Database, Durability, Error, Name, Transaction};
use mainstay_conformance::random::Random;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Plans the failure of a random sync, if the setting has failures and operations remain.
pub fn prepare(home: &Home, random: &mut Random, is_open: bool) {
    if home.setting == Setting::Failing && is_open {
        // SeqCst for simplicity, here and below: the flags publish no other data.
        home.faults.syncs_left.store(10 + random.below(120) as i64, Ordering::SeqCst);
    }
}

/// Runs until the workers are done.
pub fn run(home: &Home, db: &Database, over: &AtomicBool, mut random: Random) -> Outcome<()> {
    while !over.load(Ordering::SeqCst) {
        let done = match home.setting {
            Setting::Full => fill(home, &mut random),
            _ => tidy(db, &mut random),
        };
        match done {
            Err(error) if !is_known(&error) => return Err(format!("keeping house: {error}")),
            _ => thread::sleep(Duration::from_millis(1 + random.below(15))),
        }
    }
    home.faults.is_full.store(false, Ordering::SeqCst);
    Ok(())
}

/// Makes the disk full for a moment.
fn fill(home: &Home, random: &mut Random) -> Result<(), Error> {
    home.faults.is_full.store(true, Ordering::SeqCst);
    thread::sleep(Duration::from_micros(random.below(1500)));
    home.faults.is_full.store(false, Ordering::SeqCst);
    Ok(())
}

/// Writes a large value so that buffers fill up; now and then flushes and compacts everything.
fn tidy(db: &Database, random: &mut Random) -> Result<(), Error> {
    let name = Name::new(&format!("noise/{}", random.below(4)))?;
    let large = "x".repeat(8 << 10);
    let noise = Transaction::new().step(CellCommand::set(name, large));
    db.execute(noise.durability(Durability::Memory))?;
    if random.chance(20) {
        db.trim()?;
    }
    Ok(())
}

/// Returns whether an error is expected from a failing disk.
fn is_known(error: &Error) -> bool {
    matches!(error.code(), Code::SyncFailed | Code::UnknownOutcome | Code::DiskFull)
}

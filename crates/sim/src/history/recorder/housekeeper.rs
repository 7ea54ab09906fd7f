//! The housekeeper: flushes, compacts and fills the disk while others work.

use super::setting::{Home, Setting};
use crate::drill::Outcome;
use mainstay::{CellCommand, Code, Database, Durability, Error, Name, Transaction};
use mainstay_conformance::random::Random;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Says when the disk will fail: at some sync, if it is one that fails and there is something left to do.
pub fn prepare(home: &Home, random: &mut Random, is_open: bool) {
    if home.setting == Setting::Failing && is_open {
        home.faults.syncs_left.store(10 + random.below(120) as i64, Ordering::SeqCst);
    }
}

/// Goes on until the others are done.
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

/// For a moment there is no room.
fn fill(home: &Home, random: &mut Random) -> Result<(), Error> {
    home.faults.is_full.store(true, Ordering::SeqCst);
    thread::sleep(Duration::from_micros(random.below(1500)));
    home.faults.is_full.store(false, Ordering::SeqCst);
    Ok(())
}

/// Something large moves the buffers on; now and then all of it is flushed and compacted.
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

/// What a disk that is gone makes of it.
fn is_known(error: &Error) -> bool {
    matches!(error.code(), Code::SyncFailed | Code::UnknownOutcome | Code::DiskFull)
}

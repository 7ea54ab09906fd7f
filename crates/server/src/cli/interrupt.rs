//! Ctrl-C while something is done: what is half made is removed, and the repl goes on.
//!
//! ```text
//!   SIGINT, SIGTERM --> a thread --+--> a file is being made: removed, then the program ends
//!                                  +--> a feed is followed in the repl, SIGINT: it is told to stop
//!                                  +--> nothing of both: the program ends
//! ```
//!
//! A thread, because whoever is interrupted may wait for a server for as long as that takes.

use super::failure::{Failure, Result};
use parking_lot::Mutex;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What an interruption means at the moment; nothing until the first time that it means something.
static PLAN: Mutex<Option<Plan>> = Mutex::new(None);

enum Plan {
    /// What it means without us.
    End,
    /// This file is half made.
    Remove(PathBuf),
    /// Somebody looks at this now and then.
    Tell(Arc<AtomicBool>),
}

/// Does something that makes a file; what is interrupted leaves no half of it.
pub fn making<T>(file: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    during(Plan::Remove(part.into()), work)
}

/// Does something until it is interrupted, which it is told by `true`.
pub fn until<T>(work: impl FnOnce(&AtomicBool) -> Result<T>) -> Result<T> {
    let told = Arc::new(AtomicBool::new(false));
    during(Plan::Tell(told.clone()), || work(&told))
}

fn during<T>(plan: Plan, work: impl FnOnce() -> Result<T>) -> Result<T> {
    if PLAN.lock().replace(plan).is_none() {
        listen().map_err(|error| Failure::error(format!("signals: {error}")))?;
    }
    let done = work();
    *PLAN.lock() = Some(Plan::End);
    done
}

fn listen() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        signals.forever().for_each(interrupted);
    })?;
    Ok(())
}

fn interrupted(signal: i32) {
    match &*PLAN.lock() {
        Some(Plan::Tell(told)) if signal == SIGINT => return told.store(true, Ordering::Relaxed),
        Some(Plan::Remove(part)) => {
            // It may not be there yet, or be whole just now.
            let _ = std::fs::remove_file(part);
        }
        _ => {}
    }
    // Whoever started the program sees what ended it.
    let _ = emulate_default_handler(signal);
}

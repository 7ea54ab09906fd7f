//! Signal handling: removes half-written files, and lets Ctrl-C end a feed in the repl without ending the
//! repl.
//!
//! ```text
//!   SIGINT, SIGTERM --> a thread --+--> a file is being written: removed, then the program ends
//!                                  +--> a feed is followed in the repl, SIGINT: its flag is set
//!                                  +--> otherwise: the program ends
//! ```
//!
//! Signals have a thread of their own, because the interrupted thread may be blocked on a server.

use super::failure::{Failure, Result};
use parking_lot::Mutex;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The action for the next signal; `None` until the signal thread has been started.
static ACTION: Mutex<Option<SignalAction>> = Mutex::new(None);

enum SignalAction {
    /// The default action.
    End,
    /// Remove this half-written file, then the default action.
    Remove(PathBuf),
    /// Set this flag, which the working thread polls.
    SetFlag(Arc<AtomicBool>),
}

/// Runs work that writes a file. If it is interrupted, its `.part` file is removed.
pub fn with_part_file<T>(file: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    with_action(SignalAction::Remove(part.into()), work)
}

/// Runs work that polls a flag. Ctrl-C sets the flag.
pub fn with_stop_flag<T>(work: impl FnOnce(&AtomicBool) -> Result<T>) -> Result<T> {
    let stop = Arc::new(AtomicBool::new(false));
    with_action(SignalAction::SetFlag(stop.clone()), || work(&stop))
}

fn with_action<T>(action: SignalAction, work: impl FnOnce() -> Result<T>) -> Result<T> {
    if ACTION.lock().replace(action).is_none() {
        start_thread().map_err(|error| Failure::error(format!("signals: {error}")))?;
    }
    let done = work();
    *ACTION.lock() = Some(SignalAction::End);
    done
}

fn start_thread() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        signals.forever().for_each(on_signal);
    })?;
    Ok(())
}

fn on_signal(signal: i32) {
    match &*ACTION.lock() {
        Some(SignalAction::SetFlag(stop)) if signal == SIGINT => {
            return stop.store(true, Ordering::Relaxed);
        }
        Some(SignalAction::Remove(part)) => {
            // The file may not exist yet, or may have just been renamed.
            let _ = std::fs::remove_file(part);
        }
        _ => {}
    }
    // Ends the program by the signal, so that its parent process sees the cause.
    let _ = emulate_default_handler(signal);
}

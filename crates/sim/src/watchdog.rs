//! A watchdog: ends the process when a step hangs, and names the step.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Ends the process if no step begins for too long.
pub struct Watchdog(Sender<String>);

impl Watchdog {
    /// Creates a watchdog whose steps take less than `limit`.
    pub fn new(limit: Duration) -> Watchdog {
        let (tell, told) = channel::<String>();
        thread::spawn(move || {
            let mut what = String::new();
            loop {
                match told.recv_timeout(limit) {
                    Ok(next) => what = next,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        println!("VIOLATION: this hangs: {what}");
                        std::process::exit(1);
                    }
                }
            }
        });
        Watchdog(tell)
    }

    /// Begins a step, which ends the step before.
    pub fn watch(&self, what: String) {
        // The receiving thread lives as long as this sender.
        let _ = self.0.send(what);
    }
}

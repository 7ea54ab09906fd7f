//! Ends the process when something hangs, and says what.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Barks when nothing is heard for too long.
pub struct Watchdog(Sender<String>);

impl Watchdog {
    /// Everything that is watched takes less than this.
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

    /// This is done now; what was before is over.
    pub fn watch(&self, what: String) {
        // It listens as long as this is there.
        let _ = self.0.send(what);
    }
}

//! The child process: runs a drill under injected failures and reports its observations.

use crate::drill::{Outcome, Voice, Work, options};
use crate::failures::{go_on, live_through, look};
use mainstay::Database;
use std::fs::File;
use std::io::{IoSlice, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::exit;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// A child that takes longer hangs.
const LIFE_LIMIT: Duration = Duration::from_secs(60);

/// The expectations of a child.
#[derive(Clone, Copy, Debug)]
pub struct Orders {
    /// The seed of all choices.
    pub seed: u64,
    /// The number of the process.
    pub generation: u64,
    /// Whether operations may fail.
    pub faulty: bool,
    /// Whether reads may fail.
    pub blind: bool,
    /// Whether writes must resume in the end.
    pub resumes: bool,
}

/// Writes to the parent by `writev`, which the engine does not use and which is never injected here.
struct Pipe(File);

impl Voice for Pipe {
    fn say(&self, line: &str) {
        let line = format!("{line}\n");
        // One system call per line, so that a line arrives completely or not at all.
        let said = (&self.0).write_vectored(&[IoSlice::new(line.as_bytes())]);
        if said.ok() != Some(line.len()) {
            exit(4);
        }
        // A violation ends the process.
        if line.starts_with("X ") {
            exit(3);
        }
    }
}

/// Runs the child. Lines about the child itself begin with `=`.
pub fn run(directory: &Path, orders: Orders) -> Outcome<()> {
    let out = std::io::stdout().as_fd().try_clone_to_owned();
    let out = out.map_err(|error| format!("no standard output: {error}"))?;
    let voice: Arc<dyn Voice> = Arc::new(Pipe(File::from(out)));
    alarm_on_panic(&voice);
    alarm_on_hanging(&voice);
    voice.say("= begun");
    match options().open(directory) {
        Err(error) => voice.say(&format!("= refused {error}").replace('\n', " ")),
        Ok(db) => live(&db, &voice, orders).unwrap_or_else(|what| voice.say(&format!("X {what}"))),
    }
    voice.say("= ended");
    Ok(())
}

fn live(db: &Database, voice: &Arc<dyn Voice>, orders: Orders) -> Outcome<()> {
    let Orders { seed, generation, faulty, .. } = orders;
    live_through(db, voice, Work { seed, generation, writers: 3, operations: 10, faulty })?;
    let seen = look(db);
    if !orders.blind {
        seen?;
    }
    if orders.resumes {
        go_on(db)?;
    }
    if db.stats().read_only {
        voice.say("= latched");
    }
    // An error of `close` reports writes that were not synced; those are no loss.
    let closed = db.close();
    if faulty { Ok(()) } else { closed.map_err(|error| format!("closing: {error}")) }
}

/// Reports a panic in any thread as a violation, including the engine's threads.
fn alarm_on_panic(voice: &Arc<dyn Voice>) {
    let voice = voice.clone();
    std::panic::set_hook(Box::new(move |panic| {
        voice.say(&format!("X {panic}").replace('\n', " "));
    }));
}

fn alarm_on_hanging(voice: &Arc<dyn Voice>) {
    let voice = voice.clone();
    thread::spawn(move || {
        thread::sleep(LIFE_LIMIT);
        voice.say("X it hangs");
    });
}

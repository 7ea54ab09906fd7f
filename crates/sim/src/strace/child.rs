//! The child: lives through failures on a directory, and says how.

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

/// What is expected of a child.
#[derive(Clone, Copy, Debug)]
pub struct Orders {
    /// What choices come from.
    pub seed: u64,
    /// The number of the process.
    pub generation: u64,
    /// Operations may fail.
    pub faulty: bool,
    /// Reads may fail.
    pub blind: bool,
    /// Writing goes on at last.
    pub resumes: bool,
}

/// Speaks to the parent by `writev`, which the engine does not use and which never fails here.
struct Pipe(File);

impl Voice for Pipe {
    fn say(&self, line: &str) {
        let line = format!("{line}\n");
        // One call for each line: a line is there as a whole or not at all.
        let said = (&self.0).write_vectored(&[IoSlice::new(line.as_bytes())]);
        if said.ok() != Some(line.len()) {
            exit(4);
        }
        // What must never happen ends the process.
        if line.starts_with("X ") {
            exit(3);
        }
    }
}

/// Runs the child; lines of its own begin with `=`.
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
    // What it could not write it says; that is no loss.
    let closed = db.close();
    if faulty { Ok(()) } else { closed.map_err(|error| format!("closing: {error}")) }
}

/// A panic in any thread is a violation, in those of the engine as well.
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

//! Deterministic simulation in one thread: a server, its disk, the network and its clients, all from one seed.
//!
//! ```text
//!   client 0 ── life after life, with its journal ───────────────┐   requests, messages; crashes, silences
//!   client 1 ──                                                 ─┼─ Faulty: loses, repeats, holds, delays
//!   client 2 ──                                                 ─┘      │
//!                                                                     line: adds latency, breaks when the server falls
//!   housekeeper: sweeps, trims, steps the clock back, follows ──┐       │
//!                                                               v       v
//!                                         server: a database without threads, by the world's clock
//!                                              │ log                      │ index: a directory
//!                                              v                          v
//!                                         volume: full, fails to sync, loses power at any call
//!                                              │
//!                                              v
//!                       platter ── a model ──> the remaining files, opened again;  meanwhile the server is down
//!
//!   every event ──> trace: a hash;     requests, promises and results ──> book ──> checks
//! ```
//!
//! Nothing reads the machine's time or randomness, so the same seed gives the same world, call by call.
//! Every violation can be reproduced: `prove world --from SEED --seeds 1 --trace`.

mod book;
mod check;
mod client;
mod crowd;
mod explore;
mod follower;
mod housekeeper;
mod line;
mod machine;
mod operation;
mod script;
mod server;
mod trace;

pub use book::Tally;
pub use explore::{Found, Plan, run};
pub use script::Script;
pub use trace::Digest;

use crate::drill::Outcome;
use book::Book;
use client::Person;
use mainstay_conformance::random::Random;
use mainstay_sessions::simulation::Simulation;
use server::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use trace::Trace;

/// A time limit in microseconds that no correct world reaches.
const LONGEST_US: u64 = 3_600_000_000;

/// The state that all parts of a world share.
struct World {
    script: Script,
    simulation: Arc<Simulation>,
    server: Arc<Server>,
    book: Arc<Book>,
    trace: Trace,
    /// The number of clients that have not sent all requests yet.
    busy: AtomicUsize,
    /// Set when faults end, before the final checks.
    calm: AtomicBool,
}

/// A finished world.
pub struct Lived {
    /// The hash of the trace.
    pub digest: Digest,
    /// The counts.
    pub tally: Tally,
    /// The violation, if any.
    pub wrong: Option<String>,
    /// The last lines of the trace.
    pub tail: Vec<String>,
}

/// Simulates a world. Prints every event if `print` is set.
pub fn live(script: &Script, print: bool) -> Lived {
    let trace = Trace::new(print);
    let book = Arc::new(Book::default());
    let wrong = live_with(script, &trace, &book).err();
    if let Some(wrong) = &wrong {
        trace.line(0, "world", format_args!("WRONG: {wrong}"));
    }
    Lived { digest: trace.digest(), tally: book.tally(), wrong, tail: trace.tail() }
}

fn live_with(script: &Script, trace: &Trace, book: &Arc<Book>) -> Outcome<()> {
    let simulation = Simulation::of(script.seed);
    let server = Server::new(script, &simulation, trace, book)?;
    let world = Arc::new(World {
        busy: AtomicUsize::new(script.clients),
        script: script.clone(),
        simulation: simulation.clone(),
        server: server.clone(),
        book: book.clone(),
        trace: trace.clone(),
        calm: AtomicBool::new(false),
    });
    let ended = simulation.run(world.clone().play());
    simulation.end();
    let ended = ended.and_then(|()| world.look_after_a_cut());
    server.close();
    // Pending tasks hold references to the world, and the world to them. This breaks the cycle.
    simulation.end();
    ended
}

impl World {
    /// Runs all parts until they are idle, then checks the invariants.
    async fn play(self: Arc<World>) -> Outcome<()> {
        self.server.start()?;
        let people: Vec<Arc<Person>> =
            (0..self.script.clients).map(|number| Person::new(&self, number)).collect();
        for person in &people {
            self.simulation.spawn(person.clone().live());
        }
        self.simulation.spawn(housekeeper::keep(self.clone()));
        // SeqCst for simplicity, here and below: the simulation has one thread.
        while self.busy.load(Ordering::SeqCst) > 0 {
            self.simulation.sleep(Duration::from_millis(20)).await;
            self.check_sound()?;
        }
        self.become_calm(&people).await?;
        self.look()
    }

    /// A violation or the time limit ends the world at once.
    fn check_sound(&self) -> Outcome<()> {
        self.book.check_sound()?;
        if self.simulation.now_us() > LONGEST_US {
            Err("the world has no end: somebody waits for what does not come".to_owned())
        } else {
            Ok(())
        }
    }

    /// Waits until all messages in transit have arrived, the server runs and all messages are handled.
    async fn become_calm(&self, people: &[Arc<Person>]) -> Outcome<()> {
        self.calm.store(true, Ordering::SeqCst);
        self.server.become_calm();
        people.iter().for_each(|person| person.become_calm());
        for _ in 0..2000 {
            self.simulation.sleep(Duration::from_millis(20)).await;
            self.check_sound()?;
            let mut left = 0;
            for person in people {
                left += person.settle().await;
            }
            if left == 0 && self.server.has_settled(self.script.is_patient()) {
                return Ok(());
            }
        }
        Err("the world does not come to rest: letters are not handled".to_owned())
    }

    fn look(&self) -> Outcome<()> {
        self.server.look(|db| check::all(&self.book, &self.script, db))
    }

    /// Checks the invariants once more after an unexpected power failure.
    fn look_after_a_cut(&self) -> Outcome<()> {
        self.server.fall("at the end");
        self.server.start()?;
        self.look()
    }

    /// Returns the random numbers of one part of the world.
    fn random(&self, part: u64) -> Random {
        Random::of(&[self.script.seed, 0x57_4F_52_4C_44, part])
    }
}

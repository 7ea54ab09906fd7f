//! A worker thread of a round.

use super::super::linear::{Cell, Record};
use super::super::serial::Recorded;
use super::line::{Line, Scene};
use super::{batch, interactive, snapshot};
use crate::drill::Outcome;
use mainstay_conformance::random::Random;
use std::sync::atomic::Ordering;

/// The most transactions per thread whose answer is not awaited.
const FORGOTTEN: usize = 4;
/// The number of operations after the disk has failed, to check that reads continue.
const AFTERWARDS: usize = 8;

/// A worker thread and its recorded calls.
pub struct Worker {
    /// The calls to cells.
    pub cells: Line<Cell>,
    /// The calls to records.
    pub records: Line<Record>,
    /// The transactions.
    pub transactions: Vec<Recorded>,
    thread: u64,
    random: Random,
    written: i64,
    forgotten: usize,
}

impl Worker {
    /// Creates a worker without calls.
    pub fn new(thread: u64, random: Random) -> Worker {
        Worker {
            cells: Line::default(),
            records: Line::default(),
            transactions: Vec::new(),
            thread,
            random,
            written: 0,
            forgotten: 0,
        }
    }

    /// The number of the thread.
    pub fn thread(&self) -> u64 {
        self.thread
    }

    /// Runs until enough operations are done, or the database must be reopened.
    pub fn run(&mut self, scene: &Scene<'_>) -> Outcome<()> {
        let stage = scene.stage;
        let mut afterwards = 0;
        while stage.is_open() && afterwards < AFTERWARDS {
            let done = self.act(scene)?;
            stage.count(done);
            // SeqCst as in `Stage::judge`.
            afterwards += usize::from(stage.is_broken.load(Ordering::SeqCst));
        }
        self.cells.drain(scene, &stage.cells)?;
        self.records.drain(scene, &stage.records)
    }

    /// Reads every key at the end.
    pub fn finish(&mut self, scene: &Scene<'_>) -> Outcome<()> {
        self.cells.finish(scene, &scene.stage.cells, &mut self.random)?;
        self.records.finish(scene, &scene.stage.records, &mut self.random)
    }

    fn act(&mut self, scene: &Scene<'_>) -> Outcome<usize> {
        let Worker { random, written, thread, .. } = self;
        // Small numbers are added to some values, so the values are far apart.
        let value = || {
            *written += 1;
            ((*thread as i64 + 1) << 40) | (*written << 10)
        };
        match random.below(100) {
            0..45 => return self.cells.act(scene, &scene.stage.cells, random, value),
            45..75 => return self.records.act(scene, &scene.stage.records, random, value),
            _ => {}
        }
        let recorded = match random.below(10) {
            0..6 => interactive::run(scene, random, value)?,
            6..9 => {
                let forgets = random.chance(3) && self.forgotten < FORGOTTEN;
                self.forgotten += usize::from(forgets);
                batch::run(scene, random, forgets, value)?
            }
            _ => snapshot::run(scene, random)?,
        };
        let steps = recorded.steps.len();
        self.transactions.push(recorded);
        Ok(steps.max(1))
    }
}

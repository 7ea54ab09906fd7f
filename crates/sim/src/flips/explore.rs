//! Flips a bit in every block of every file.

use super::flip::{Ending, Flip, try_out};
use crate::cuts::{Recording, Start};
use crate::disk::{Homes, Image};
use crate::drill::{Outcome, Work, options};
use crate::effort;
use crate::watchdog::Watchdog;
use mainstay_conformance::random::Random;
use std::collections::BTreeMap;
use std::time::Duration;

/// One bit is flipped per this many bytes.
const BLOCK: usize = 4096;

/// The time limit of a flip.
const FLIP_LIMIT: Duration = Duration::from_secs(120);

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of all choices except the order of threads.
    pub seed: u64,
    /// The number of flips; `None` flips one bit in each block of each file.
    pub count: Option<u64>,
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The number of flipped bits.
    pub flips: u64,
    /// The number of blocks in the files of the last database.
    pub blocks: u64,
    /// The number of flips by kind of file.
    pub files: BTreeMap<String, u64>,
    /// The number of flips by ending.
    pub endings: BTreeMap<Ending, u64>,
}

/// Runs the plan. Returns an error that describes a violation.
pub fn run(plan: &Plan, mut say: impl FnMut(&Tally)) -> Outcome<Tally> {
    let homes = Homes::make()?;
    let dog = Watchdog::new(FLIP_LIMIT);
    let mut tally = Tally::default();
    let mut database = 0;
    loop {
        database += 1;
        let mut random = Random::of(&[plan.seed, database]);
        let (image, said) = written(random.next(), &homes)?;
        let mut flips = flips(&image, &mut random);
        tally.blocks = flips.len() as u64;
        while let Some(flip) = flips.pop() {
            if plan.count.is_some_and(|count| tally.flips >= count) {
                return tally.if_noticed();
            }
            effort::step()?;
            dog.watch(format!("seed {}, database {database}: {flip}", plan.seed));
            let ending = try_out(&image, &said, &flip, &homes)
                .map_err(|what| format!("seed {}, {flip}: {what}", plan.seed))?;
            tally.count(&flip, ending);
            if tally.flips.is_multiple_of(100) {
                say(&tally);
            }
        }
        if plan.count.is_none() {
            return tally.if_noticed();
        }
    }
}

/// Returns the files of a database that two processes have written to, and their output.
fn written(seed: u64, homes: &Homes) -> Outcome<(Image, Vec<(u64, String)>)> {
    let mut start = Start::default();
    for generation in 1..=2 {
        let work = Work { seed, generation, writers: 4, operations: 60, faulty: false };
        start = Recording::make(start, work, options(), &homes.mounted)?.after_all();
    }
    Ok((start.base, start.before))
}

/// Returns one flip for each block of each file, in random order.
fn flips(image: &Image, random: &mut Random) -> Vec<Flip> {
    let mut all = Vec::new();
    for (path, bytes) in image.files() {
        for start in (0..bytes.len()).step_by(BLOCK) {
            let len = BLOCK.min(bytes.len() - start) as u64;
            let offset = start + random.below(len) as usize;
            let bit = random.below(8) as u8;
            all.push(Flip { path: path.clone(), offset, bit });
        }
    }
    for last in (1..all.len()).rev() {
        all.swap(last, random.below(last as u64 + 1) as usize);
    }
    all
}

impl Tally {
    /// Fails if most flips were not noticed, because nearly every byte of a database matters.
    fn if_noticed(self) -> Outcome<Tally> {
        let unnoticed = self.endings.get(&Ending::Nothing).copied().unwrap_or(0);
        if unnoticed * 2 < self.flips {
            Ok(self)
        } else {
            Err(format!("most flips were not noticed: {self:?}"))
        }
    }

    fn count(&mut self, flip: &Flip, ending: Ending) {
        self.flips += 1;
        *self.endings.entry(ending).or_default() += 1;
        let kind = flip.path.display().to_string().replace(|c: char| c.is_ascii_digit(), "#");
        *self.files.entry(kind).or_default() += 1;
    }
}

//! A bit in every block of every file.

use super::flip::{Ending, Flip, try_out};
use crate::cuts::{Recording, Start};
use crate::disk::{Homes, Image};
use crate::drill::{Outcome, Work, options};
use crate::effort;
use crate::watchdog::Watchdog;
use mainstay_conformance::random::Random;
use std::collections::BTreeMap;
use std::time::Duration;

/// One bit for so many bytes.
const BLOCK: usize = 4096;

/// No flip needs so long.
const FLIP_LIMIT: Duration = Duration::from_secs(120);

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What all choices come from, but for the order in which threads run.
    pub seed: u64,
    /// How many flips; nothing: one for each block of each file.
    pub count: Option<u64>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Bits that were flipped.
    pub flips: u64,
    /// Blocks there are in the files of the last database.
    pub blocks: u64,
    /// By kind of file.
    pub files: BTreeMap<String, u64>,
    /// How it ended.
    pub endings: BTreeMap<Ending, u64>,
}

/// Runs the plan; the error says what was violated.
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

/// The files of a database that two processes have written to, and what these were told.
fn written(seed: u64, homes: &Homes) -> Outcome<(Image, Vec<(u64, String)>)> {
    let mut start = Start::default();
    for generation in 1..=2 {
        let work = Work { seed, generation, writers: 4, operations: 60, faulty: false };
        start = Recording::make(start, work, options(), &homes.mounted)?.after_all();
    }
    Ok((start.base, start.before))
}

/// One flip for each block of each file, in any order.
fn flips(image: &Image, random: &mut Random) -> Vec<Flip> {
    let mut all = Vec::new();
    for (path, bytes) in image.files() {
        for start in (0..bytes.len()).step_by(BLOCK) {
            let len = BLOCK.min(bytes.len() - start) as u64;
            let (offset, bit) = (start + random.below(len) as usize, random.below(8) as u8);
            all.push(Flip { path: path.clone(), offset, bit });
        }
    }
    for last in (1..all.len()).rev() {
        all.swap(last, random.below(last as u64 + 1) as usize);
    }
    all
}

impl Tally {
    /// Nearly every byte of a database matters to somebody.
    fn if_noticed(self) -> Outcome<Tally> {
        let unnoticed = self.endings.get(&Ending::Nothing).copied().unwrap_or(0);
        match unnoticed * 2 < self.flips {
            true => Ok(self),
            false => Err(format!("most flips were not noticed: {self:?}")),
        }
    }

    fn count(&mut self, flip: &Flip, ending: Ending) {
        self.flips += 1;
        *self.endings.entry(ending).or_default() += 1;
        let kind = flip.path.display().to_string().replace(|c: char| c.is_ascii_digit(), "#");
        *self.files.entry(kind).or_default() += 1;
    }
}

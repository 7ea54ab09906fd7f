//! Our side of the concurrent writes: workers and submitters over one database.

use crate::context::Outcome;
use crate::forms::Landing;
use crate::workload::Random;
use mainstay::{Answer, CellCommand, Database, Name, Receipt, Transaction};

/// A database and the data to write.
pub struct Ours {
    /// The database.
    pub database: Database,
    /// Names of the cells.
    pub names: Vec<String>,
    /// Values to write.
    pub values: Vec<String>,
}

impl Ours {
    /// Workers that each write random values to random names.
    pub fn setters<'a>(
        &'a self,
        count: usize,
        set: impl Fn(&str, &str) -> Outcome<()> + Clone + Send + 'a,
    ) -> Vec<impl FnMut() -> Outcome<()> + Send + 'a> {
        let worker = |seed| {
            let set = set.clone();
            let mut random = Random::new(seed);
            move || set(random.pick(&self.names), random.pick(&self.values))
        };
        (0..count as u64).map(worker).collect()
    }

    /// Workers that set random cells.
    pub fn cell_setters(&self, count: usize) -> Vec<impl FnMut() -> Outcome<()> + Send + '_> {
        let cells = self.database.cells();
        self.setters(count, move |name, value| cells.set(name, value).map(drop).map_err(Into::into))
    }

    /// Workers that all set the same cell.
    pub fn hot_setters(&self, count: usize) -> Vec<impl FnMut() -> Outcome<()> + Send + '_> {
        let cells = self.database.cells();
        let hot = &self.names[0];
        self.setters(count, move |_, value| cells.set(hot, value).map(drop).map_err(Into::into))
    }

    /// Submitters that set random cells of the given names.
    pub fn set_submitters<'a>(
        &'a self,
        count: usize,
        names: &'a [String],
    ) -> Vec<impl FnMut(Landing) -> Outcome<()> + Send + 'a> {
        let submitter = |seed| {
            let mut random = Random::new(seed);
            move |landing: Landing| {
                let name = Name::new(random.pick(names))?;
                let set = CellCommand::set(name, random.pick(&self.values));
                let transaction = Transaction::new().step(set);
                self.database.submit_with(transaction, move |result| {
                    landing.answer(result.map(drop));
                });
                Ok(())
            }
        };
        (0..count as u64).map(submitter).collect()
    }

    /// Workers that swap their own cells.
    pub fn swappers(&self, count: usize) -> Outcome<Vec<impl FnMut() -> Outcome<()> + Send + '_>> {
        let swapper = |mut own: Owned| {
            let cells = self.database.cells();
            let mut random = Random::new(own.first as u64);
            move || {
                let (name, expected) = own.next(&self.names);
                match cells.cas(name, Some(expected), random.pick(&self.values))? {
                    Some(_) => Ok(()),
                    None => Err(lost(name).into()),
                }
            }
        };
        Ok(self.owned(count)?.into_iter().map(swapper).collect())
    }

    /// Submitters that swap their own cells.
    pub fn swap_submitters(
        &self,
        count: usize,
    ) -> Outcome<Vec<impl FnMut(Landing) -> Outcome<()> + Send + '_>> {
        let submitter = |mut own: Owned| {
            let mut random = Random::new(own.first as u64);
            move |landing: Landing| {
                let (name, expected) = own.next(&self.names);
                let name = Name::new(name)?;
                let value = random.pick(&self.values).into();
                let cas = CellCommand::Cas { name, expected: Some(expected), value };
                let transaction = Transaction::new().step(cas);
                self.database.submit_with(transaction, move |result| landing.answer(won(result)));
                Ok(())
            }
        };
        Ok(self.owned(count)?.into_iter().map(submitter).collect())
    }

    /// Partitions the cells among the workers, so that every worker knows its cells' counters and every
    /// swap succeeds.
    fn owned(&self, count: usize) -> Outcome<Vec<Owned>> {
        let cells = self.database.cells();
        let mut counters = Vec::with_capacity(self.names.len());
        for name in &self.names {
            let found = cells.get_versioned(name)?;
            counters.push(found.ok_or_else(|| format!("the cell {name} is not there"))?.counter);
        }
        let own = |first: usize| Owned {
            first,
            step: count,
            turn: 0,
            counters: counters.iter().skip(first).step_by(count).copied().collect(),
        };
        Ok((0..count).map(own).collect())
    }
}

/// One worker's share of the cells: every `step`-th one, in turn.
struct Owned {
    first: usize,
    step: usize,
    turn: usize,
    counters: Vec<u64>,
}

impl Owned {
    /// The next cell, and its counter after all earlier swaps.
    fn next<'a>(&mut self, names: &'a [String]) -> (&'a str, u64) {
        self.turn = (self.turn + 1) % self.counters.len();
        let counter = self.counters[self.turn];
        self.counters[self.turn] += 1;
        (&names[self.first + self.turn * self.step], counter)
    }
}

fn won(result: mainstay::Result<Receipt>) -> Result<(), String> {
    match result.map_err(|error| error.to_string())?.answers.first() {
        Some(Answer::MaybeCounter(Some(_))) => Ok(()),
        _ => Err(lost("in flight")),
    }
}

fn lost(name: &str) -> String {
    format!("a cas that nobody contested was lost: {name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload;

    #[test]
    fn shares_are_disjoint_and_counters_follow() {
        let names = workload::names(10);
        let mut own = Owned { first: 1, step: 4, turn: 0, counters: vec![5, 6, 7] };
        let taken: Vec<_> = (0..4).map(|_| own.next(&names)).collect();
        let expected = [(5, 6), (9, 7), (1, 5), (5, 7)];
        let expected = expected.map(|(index, counter)| (names[index].as_str(), counter));
        assert_eq!(taken, expected);
    }
}

//! Observations: the versions that each transaction read.

use super::chains::Chains;
use super::{Fate, Range, Recorded, Saw, Step};
use std::collections::BTreeMap;

/// An observation of a key: all versions from `first` to `last` look the same to the reader.
pub struct Sight {
    /// The reading transaction.
    pub reader: u32,
    /// The index of the chain.
    pub chain: usize,
    /// The first matching place.
    pub first: usize,
    /// The last matching place.
    pub last: usize,
    /// Whether the read was a list.
    pub ranged: bool,
}

/// Returns the observations of all transactions.
pub fn all(transactions: &[Recorded], chains: &Chains<'_>) -> Result<Vec<Sight>, String> {
    let mut sights = Vec::new();
    for (number, transaction) in transactions.iter().enumerate() {
        if !chains.counts[number] {
            continue;
        }
        let mut reader = Reader {
            number: number as u32,
            transaction,
            transactions,
            chains,
            own: BTreeMap::new(),
            sights: &mut sights,
        };
        transaction.steps.iter().try_for_each(|step| reader.follow(step))?;
    }
    Ok(sights)
}

/// Replays a transaction with its own writes so far.
struct Reader<'r, 'h> {
    number: u32,
    transaction: &'h Recorded,
    transactions: &'h [Recorded],
    chains: &'r Chains<'h>,
    own: BTreeMap<&'h str, Option<i64>>,
    sights: &'r mut Vec<Sight>,
}

impl<'h> Reader<'_, 'h> {
    fn follow(&mut self, step: &'h Step) -> Result<(), String> {
        match step {
            Step::Write(key, value) => {
                self.own.insert(key, *value);
                Ok(())
            }
            Step::Read(key, saw) => self.see(key, *saw, false),
            Step::List(range, seen) => self.list(range, seen),
        }
    }

    /// Records an observation of every key in the range, including the absent ones.
    fn list(&mut self, range: &Range, seen: &'h [(String, Saw)]) -> Result<(), String> {
        if !seen.is_sorted_by(|a, b| a.0 < b.0) || seen.iter().any(|(key, _)| !range.has(key)) {
            return Err(format!("a list that is none: {:?}", self.transaction));
        }
        let chains = self.chains;
        let known = chains.all.iter().map(|chain| chain.key).chain(self.own.keys().copied());
        let inside = known.filter(|key| range.has(key)).map(|key| (key, Saw::Absent));
        let mut keys: BTreeMap<&str, Saw> = inside.collect();
        keys.extend(seen.iter().map(|(key, saw)| (key.as_str(), *saw)));
        keys.into_iter().try_for_each(|(key, saw)| self.see(key, saw, true))
    }

    fn see(&mut self, key: &str, saw: Saw, ranged: bool) -> Result<(), String> {
        if let Some(own) = self.own.get(key) {
            return if saw.fits(*own) {
                Ok(())
            } else {
                Err(self.says(&format!("did not see its own write to `{key}`")))
            };
        }
        if let Saw::Value(value) = saw {
            self.check_author(key, value)?;
        }
        let Some(chain) = self.chains.number(key) else {
            return match saw {
                Saw::Absent => Ok(()),
                _ => Err(self.says(&format!("saw `{key}`, which nobody wrote"))),
            };
        };
        if let Some((first, last)) = self.places(chain, saw)? {
            self.sights.push(Sight { reader: self.number, chain, first, last, ranged });
        }
        Ok(())
    }

    /// Checks that a value that was read is the last write of a transaction that took effect.
    fn check_author(&self, key: &str, value: i64) -> Result<(), String> {
        let Some(author) = self.chains.author(key, value) else {
            return Err(self.says(&format!("saw {value} in `{key}`, which nobody wrote")));
        };
        if author.transaction == self.number {
            return Err(self.says(&format!("saw its own {value} in `{key}` before it wrote it")));
        }
        let of = &self.transactions[author.transaction as usize];
        let happened = self.chains.counts[author.transaction as usize];
        if of.fate == Fate::Aborted || !happened {
            let what = format!("G1a, an aborted read: saw {value} in `{key}`, written by {of:?}");
            return Err(self.says(&what));
        }
        if !author.is_last {
            let what = format!("G1b, an intermediate read: saw {value} in `{key}` of {of:?}");
            return Err(self.says(&what));
        }
        Ok(())
    }

    /// Returns the places in the chain that match an observation. If several ranges match, the revision
    /// that was read decides. Without a revision the observation is ambiguous and is ignored.
    fn places(&self, number: usize, saw: Saw) -> Result<Option<(usize, usize)>, String> {
        let chain = &self.chains.all[number];
        if let Saw::Value(value) = saw {
            return Ok(self.chains.place(number, value).map(|place| (place, place)));
        }
        let runs = runs(chain.len(), |place| saw.fits(chain.value(place)));
        match (runs.as_slice(), self.transaction.read_at) {
            ([], _) => Err(self.says(&format!("saw `{}` {saw:?}, which it never was", chain.key))),
            ([one], _) => Ok(Some(*one)),
            (_, None) => Ok(None),
            (many, Some(revision)) => {
                let place = chain.place_at(revision);
                match many.iter().find(|(first, last)| (*first..=*last).contains(&place)) {
                    Some(run) => Ok(Some(*run)),
                    None => {
                        let what =
                            format!("saw `{}` {saw:?}, which it was not at {revision}", chain.key);
                        Err(self.says(&what))
                    }
                }
            }
        }
    }

    fn says(&self, what: &str) -> String {
        format!("{what}: {:?}", self.transaction)
    }
}

/// Returns the places for which a predicate holds, as ranges without gaps.
fn runs(len: usize, holds: impl Fn(usize) -> bool) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for place in (0..len).filter(|place| holds(*place)) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == place => *last = place,
            _ => runs.push((place, place)),
        }
    }
    runs
}

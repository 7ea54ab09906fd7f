//! Strict serializability: is there one order of all transactions, true to time, in which everyone saw what was there?
//!
//! ```text
//!   versions of every key ──chains──> who wrote what, in which order     lost, aborted and half writes are found here
//!   reads ──sights──> which version each transaction saw                 G1a, G1b, and its own writes
//!                        │
//!              ww, wr, rw, time ──graph──> a cycle: nobody can have been first
//! ```
//!
//! As Adya defined it and Elle checks it: every write writes a value of its own, so a value that is seen names its writer, and
//! the counters of a key tell the order of its versions. What a list shows counts for every key in its range, those
//! that are absent too, so phantoms are cycles like all others.

mod chains;
mod cycle;
mod graph;
mod report;
mod sights;
#[cfg(test)]
mod tests;
mod time;
mod transaction;

pub use chains::Version;
pub use transaction::{Fate, Range, Recorded, Saw, Step};

use chains::Chains;
use graph::{Graph, Label};
use std::collections::BTreeMap;

/// Everything that was recorded of transactions.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// What they did and saw, in any order.
    pub transactions: Vec<Recorded>,
    /// What every key went through, oldest first.
    pub versions: BTreeMap<String, Vec<Version>>,
}

/// Checks a history; else says what is wrong with it, by its name.
pub fn check(history: &History) -> Result<(), String> {
    let transactions = &history.transactions;
    let chains = Chains::new(history)?;
    let sights = sights::all(transactions, &chains)?;
    let mut graph = Graph::new(transactions.len());
    graph.add_writes(&chains);
    sights.iter().for_each(|sight| graph.add_sight(sight, &chains));
    refuse_cycle(&graph, transactions, &chains)?;
    // Only now: a cycle that needs no clock says more.
    time::add(&mut graph, transactions, &chains);
    refuse_cycle(&graph, transactions, &chains)
}

fn refuse_cycle(
    graph: &Graph,
    transactions: &[Recorded],
    chains: &Chains<'_>,
) -> Result<(), String> {
    match cycle::shortest(graph) {
        None => Ok(()),
        Some(cycle) => Err(report::of(&cycle, transactions, chains)),
    }
}

/// A way from one transaction to the next, and why it is in front.
type Link = (u32, Label);

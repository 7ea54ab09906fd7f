//! Strict serializability checker: searches the dependency graph of transactions for cycles.
//!
//! ```text
//!   versions of every key ──chains──> the writers in version order       lost, aborted and half writes are found here
//!   reads ──sights──> which version each transaction saw                 G1a, G1b, and its own writes
//!                        │
//!              ww, wr, rw, time ──graph──> a cycle: the history is not serializable
//! ```
//!
//! Uses Adya's definitions, checked as Elle does. Every write has a unique value, so a value that is
//! read identifies its writer. The counters of a key give the order of its versions. A list reads every
//! key in its range, including the absent ones, so phantoms are cycles like all others.

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

/// A recorded history of transactions.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The transactions, in any order.
    pub transactions: Vec<Recorded>,
    /// The versions of every key, oldest first.
    pub versions: BTreeMap<String, Vec<Version>>,
}

/// Checks a history. Returns the name and the description of an anomaly as an error.
pub fn check(history: &History) -> Result<(), String> {
    let transactions = &history.transactions;
    let chains = Chains::new(history)?;
    let sights = sights::all(transactions, &chains)?;
    let mut graph = Graph::new(transactions.len());
    graph.add_writes(&chains);
    sights.iter().for_each(|sight| graph.add_sight(sight, &chains));
    refuse_cycle(&graph, transactions, &chains)?;
    // Real time comes last, because a cycle without time edges is a more specific finding.
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

/// An edge: the next transaction, and the reason.
type Link = (u32, Label);

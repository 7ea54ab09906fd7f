//! Real-time order as edges of the graph, with as few edges as transactions begin and end.
//!
//! ```text
//!   T1 ends ─> b1 ──> b2 <─ T3 ends          each one that ended before b2 precedes each one that begins after it
//!              └> T2     └> T4 begins
//! ```

use super::chains::Chains;
use super::graph::{Graph, Kind, Label};
use super::{Fate, Recorded};

const LABEL: Label = Label { kind: Kind::Time, chain: None, ranged: false };

/// Adds a chain of moments. A transaction that ends has an edge to the next moment, and the last moment
/// to each one that begins.
pub fn add(graph: &mut Graph, transactions: &[Recorded], chains: &Chains<'_>) {
    let mut last: Option<u32> = None;
    let mut begun = true;
    for (_, is_end, number) in events(transactions, chains) {
        if !is_end {
            last.iter().for_each(|moment| graph.add(*moment, number, LABEL));
            begun = true;
            continue;
        }
        // Transactions that end while none begins share a moment.
        let moment = match last {
            Some(moment) if !begun => moment,
            _ => next(graph, last),
        };
        graph.add(number, moment, LABEL);
        last = Some(moment);
        begun = false;
    }
}

fn next(graph: &mut Graph, last: Option<u32>) -> u32 {
    let moment = graph.add_moment();
    last.iter().for_each(|last| graph.add(*last, moment, LABEL));
    moment
}

/// Returns beginnings and ends in order. A transaction with an unknown outcome has no end.
fn events(transactions: &[Recorded], chains: &Chains<'_>) -> Vec<(u64, bool, u32)> {
    let both = |(number, one): (usize, &Recorded)| {
        let end = (one.fate != Fate::Unknown).then_some((one.returned, true, number as u32));
        [Some((one.invoked, false, number as u32)), end]
    };
    let counted = transactions.iter().enumerate().filter(|(number, _)| chains.counts[*number]);
    let mut events: Vec<_> = counted.flat_map(both).flatten().collect();
    events.sort_unstable();
    events
}

//! Names and describes cycles.

use super::Recorded;
use super::chains::Chains;
use super::cycle::Cycle;
use super::graph::{Kind, Label};
use std::fmt::Write;

/// Describes a cycle: its name, its transactions, and the reason for each edge.
pub fn of(cycle: &Cycle, transactions: &[Recorded], chains: &Chains<'_>) -> String {
    let mut text = format!("{}: nobody of {} can have been first", name(cycle), cycle.len());
    for (place, (number, label)) in cycle.iter().enumerate() {
        let next = (place + 1) % cycle.len();
        let key = label.chain.map(|chain| chains.all[chain as usize].key);
        // Writing to a `String` never fails.
        let _ = write!(
            text,
            "\n  T{place} = {:?}\n    {} T{next}",
            transactions[*number as usize],
            reason(label, key)
        );
    }
    text
}

fn reason(label: &Label, key: Option<&str>) -> String {
    let key = key.unwrap_or_default();
    let listed = if label.ranged { ", listed," } else { "" };
    match label.kind {
        Kind::Ww => format!("ww: its write to `{key}` was replaced by"),
        Kind::Wr => format!("wr: its write to `{key}`{listed} was seen by"),
        Kind::Rw => format!("rw: what it saw of `{key}`{listed} was replaced by"),
        Kind::Time => "time: it was over before the beginning of".to_owned(),
    }
}

/// Returns the name of the anomaly in the literature.
fn name(cycle: &Cycle) -> &'static str {
    let count = |kind: Kind| cycle.iter().filter(|(_, label)| label.kind == kind).count();
    let ww = count(Kind::Ww);
    let wr = count(Kind::Wr);
    let rw = count(Kind::Rw);
    let time = count(Kind::Time);
    let ranged = cycle.iter().any(|(_, label)| label.ranged);
    let one_key = cycle.iter().all(|(_, label)| label.chain == cycle[0].1.chain);
    match (time, rw) {
        (1.., 1) if ww == 0 => "a stale read",
        (1.., 0) if ww == 0 => "a read of the future",
        (1.., _) => "an inversion of real time",
        (0, 0) if wr == 0 => "G0, a dirty write",
        (0, 0) => "G1c, a circular flow of information",
        (0, _) if ranged => "G2, a phantom",
        (0, 1) if ww == 1 && wr == 0 && one_key => "a lost update",
        (0, 1) => "G-single, read skew",
        (0, _) => "G2, write skew",
    }
}

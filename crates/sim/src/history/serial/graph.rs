//! The dependency graph of transactions.

use super::Link;
use super::chains::Chains;
use super::sights::Sight;

/// The kind of a dependency: the reason why one transaction precedes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Write-write: the other one wrote the next version of a key.
    Ww,
    /// Write-read: the other one read the version that this one wrote.
    Wr,
    /// Read-write (anti-dependency): the other one overwrote the version that this one read.
    Rw,
    /// Real time: it ended before the other one began.
    Time,
}

/// An edge label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The kind of the dependency.
    pub kind: Kind,
    /// The index of the key's chain; `None` for time.
    pub chain: Option<u32>,
    /// Whether the read was a list.
    pub ranged: bool,
}

/// The graph: transactions, followed by moments in time.
pub struct Graph {
    /// The number of nodes that are transactions.
    pub transactions: usize,
    /// The edges from each node.
    pub links: Vec<Vec<Link>>,
}

impl Graph {
    /// Creates a graph of transactions without edges.
    pub fn new(transactions: usize) -> Graph {
        Graph { transactions, links: vec![Vec::new(); transactions] }
    }

    /// Adds an edge, unless it is a self-loop.
    pub fn add(&mut self, from: u32, to: u32, label: Label) {
        if from != to {
            self.links[from as usize].push((to, label));
        }
    }

    /// Adds a moment and returns its node.
    pub fn add_moment(&mut self) -> u32 {
        self.links.push(Vec::new());
        self.links.len() as u32 - 1
    }

    /// Adds the write-write edges of all keys.
    pub fn add_writes(&mut self, chains: &Chains<'_>) {
        for (number, chain) in chains.all.iter().enumerate() {
            let label = Label { kind: Kind::Ww, chain: Some(number as u32), ranged: false };
            for place in 2..chain.len() {
                if let (Some(from), Some(to)) = (chain.writer(place - 1), chain.writer(place)) {
                    self.add(from, to, label);
                }
            }
        }
    }

    /// Adds the edges of a read: after the writer of the version that it saw, and before the writer of
    /// the next one.
    pub fn add_sight(&mut self, sight: &Sight, chains: &Chains<'_>) {
        let Sight { reader, chain, first, last, ranged } = *sight;
        let label = |kind| Label { kind, chain: Some(chain as u32), ranged };
        let chain = &chains.all[chain];
        if let Some(writer) = chain.writer(first) {
            self.add(writer, reader, label(Kind::Wr));
        }
        if let Some(writer) = chain.writer(last + 1) {
            self.add(reader, writer, label(Kind::Rw));
        }
    }
}

//! Who must have been in front of whom.

use super::Link;
use super::chains::Chains;
use super::sights::Sight;

/// Why one transaction is in front of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The other one wrote the next version of what it wrote.
    Ww,
    /// The other one saw what it wrote.
    Wr,
    /// The other one replaced what it saw.
    Rw,
    /// It was over when the other one began.
    Time,
}

/// A reason, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The reason.
    pub kind: Kind,
    /// The number of the key's chain; none for time.
    pub chain: Option<u32>,
    /// Whether a list saw it.
    pub ranged: bool,
}

/// Transactions, and behind them moments in time.
pub struct Graph {
    /// How many of the nodes are transactions.
    pub transactions: usize,
    /// The ways from each node.
    pub links: Vec<Vec<Link>>,
}

impl Graph {
    /// Transactions of which nothing is known yet.
    pub fn new(transactions: usize) -> Graph {
        Graph { transactions, links: vec![Vec::new(); transactions] }
    }

    /// Adds a way, unless it leads nowhere.
    pub fn add(&mut self, from: u32, to: u32, label: Label) {
        if from != to {
            self.links[from as usize].push((to, label));
        }
    }

    /// Adds a moment; gives its number.
    pub fn add_moment(&mut self) -> u32 {
        self.links.push(Vec::new());
        self.links.len() as u32 - 1
    }

    /// Writers of a key follow each other.
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

    /// A reader is behind whoever made what it saw, and in front of whoever changed it.
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

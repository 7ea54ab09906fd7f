//! Cases for branches: constant-cost forks, three-way diffs and merges, tags, export and import.

pub mod diff;
pub mod fork;
pub mod merge;
pub mod remove;
pub mod strategy;
pub mod tags;
pub mod transfer;

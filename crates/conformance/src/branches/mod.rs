//! Branches: forks that cost nothing, three-way diffs and merges, tags, files.

pub mod diff;
pub mod fork;
pub mod merge;
pub mod remove;
pub mod strategy;
pub mod tags;
pub mod transfer;

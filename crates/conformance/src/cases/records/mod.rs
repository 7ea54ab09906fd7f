//! Record cases: fields, expiry, compare-and-swap, scans, Redis hashes.

pub mod branches;
pub mod cas;
pub mod conditions;
pub mod conflicts;
pub mod delete;
pub mod expire;
pub mod feed;
pub mod fields;
pub mod hashes;
pub mod history;
pub mod kinds;
pub mod merge;
pub mod naming;
pub mod put;
pub mod replace;
pub mod retention;
pub mod scan;
pub mod transactions;
pub mod transfer;
pub mod values;

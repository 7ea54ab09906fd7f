//! Conformance cases for every record store, through `dyn RecordStore`.

pub mod closing;
pub mod conditions;
pub mod delete;
pub mod expiry;
pub mod fences;
pub mod fields;
pub mod filters;
pub mod history;
pub mod indexes;
pub mod lacking;
pub mod lifetime;
pub mod naming;
pub mod picks;
pub mod programs;
pub mod put;
pub mod races;
pub mod scan;
pub mod swap;
pub mod values;

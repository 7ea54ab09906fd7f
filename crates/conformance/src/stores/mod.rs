//! Conformance cases for every store, through the trait objects of the contracts.

#[cfg(feature = "keyed-stores")]
pub mod keyed;
pub mod records;
pub mod runs;

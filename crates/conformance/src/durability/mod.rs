//! Durability: three modes, one result; and what a reopened database has.

pub mod modes;
pub mod reopening;

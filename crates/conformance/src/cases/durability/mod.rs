//! Durability cases: the three durability modes, and the state after a reopen.

pub mod modes;
pub mod reopening;

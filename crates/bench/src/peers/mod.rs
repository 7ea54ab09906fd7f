//! The peers that the engine is compared with.

pub mod bare_log;
pub mod fjall;
pub mod papaya;
pub mod redb;

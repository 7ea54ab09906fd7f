//! What the engine is measured against.

pub mod bare_log;
pub mod fjall;
pub mod papaya;
pub mod redb;

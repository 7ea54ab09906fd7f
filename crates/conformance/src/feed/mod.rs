//! The feed: every committed change once, in order.

pub mod filter;
pub mod order;
pub mod resume;

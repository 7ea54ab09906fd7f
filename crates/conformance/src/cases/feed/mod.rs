//! The change feed: every committed change exactly once, in order.

pub mod filter;
pub mod order;
pub mod resume;

//! Logical and event time of a stream: frontier, watermark and timers.

mod frontier;
mod timers;
mod watermark;

pub use frontier::Frontier;
pub(crate) use timers::Timers;
pub use watermark::Watermark;

//! Clocks, locks, counters, fault points and work budgets, for every layer.

pub mod clock;
#[cfg(not(feature = "planted"))]
pub mod fault_points;
#[cfg(feature = "planted")]
pub mod fault_points;
pub mod metrics;
pub mod priority;
pub mod sync;
pub mod work;

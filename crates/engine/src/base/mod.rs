//! Clocks, locks, counters, fault points and work budgets, for every layer.

pub(crate) mod clock;
#[cfg(not(feature = "planted"))]
pub(crate) mod fault_points;
#[cfg(feature = "planted")]
pub mod fault_points;
pub(crate) mod metrics;
pub(crate) mod priority;
pub(crate) mod sync;
pub(crate) mod work;

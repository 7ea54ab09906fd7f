//! Clocks, locks, counters, fault points and work budgets, for every layer.

pub(crate) mod clock;
pub(crate) mod figures;
#[cfg(not(feature = "planted"))]
pub(crate) mod planted;
#[cfg(feature = "planted")]
pub mod planted;
pub(crate) mod priority;
pub(crate) mod sync;
pub(crate) mod work;

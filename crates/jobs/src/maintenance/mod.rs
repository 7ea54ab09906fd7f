//! Maintenance: sweeps of jobs with expired leases, and garbage collection of objects.

pub(crate) mod gc;
pub(crate) mod sweep;
pub(crate) mod sweeper;

//! Observability of the server: metrics, the slow log, `INFO`, the watch.

mod documented;
mod lines;
mod metrics;
#[path = "../../../mainstay/tests/seam/mod.rs"]
mod seam;
mod slow_log;
#[path = "../support/mod.rs"]
mod support;
mod watch;
mod world;

//! Observability of the server: metrics, the slow log, `INFO`, the program's log, spans.

mod child;
mod collector;
mod documented;
mod lines;
mod log;
mod metrics;
#[path = "../../../mainstay/tests/seam/mod.rs"]
mod seam;
mod slow_log;
mod spans;
#[path = "../support/mod.rs"]
mod support;
mod watch;
mod world;

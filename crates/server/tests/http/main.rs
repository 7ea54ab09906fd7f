//! The HTTP face over real sockets: one test per rule.

mod branches;
mod browsers;
mod cells;
mod conditions;
mod ending;
mod feed;
mod files;
mod jobs;
mod keyed;
mod limits;
mod memory;
mod operation;
mod outbox;
mod records;
mod refusals;
mod repeats;
mod runs;
#[path = "../../../mainstay/tests/seam/mod.rs"]
mod seam;
mod sessions;
#[path = "../support/mod.rs"]
mod support;
mod transactions;
mod world;

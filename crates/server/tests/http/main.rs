//! The HTTP face over real sockets: one test per rule.

mod branches;
mod browsers;
mod cells;
mod conditions;
mod ending;
mod feed;
mod files;
mod limits;
mod operation;
mod refusals;
mod repeats;
#[path = "../../../engine/tests/seam/mod.rs"]
mod seam;
mod transactions;
mod world;

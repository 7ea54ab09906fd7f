//! The program as a user runs it: the real binary in its own directory, one test per rule.

mod archive;
mod arguments;
mod bench;
mod branches;
mod cells;
mod config;
mod feed;
mod files;
mod hot;
mod jobs;
mod output;
#[path = "../../../server/tests/tls/papers.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod papers;
#[path = "../process/mod.rs"]
mod process;
mod program;
mod records;
mod repl;
mod rights;
mod runs;
mod served;
mod server;
mod sessions;
mod states;
#[path = "../../../server/tests/support/mod.rs"]
mod support;
mod terminal;
mod tls;
#[path = "../../../server/tests/tls/world.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod tls_world;
mod transfer;
mod txn;
#[path = "../../../server/tests/security/world.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod user_world;
mod users;

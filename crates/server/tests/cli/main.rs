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
mod program;
mod records;
mod repl;
mod rights;
mod runs;
mod served;
mod server;
mod sessions;
mod states;
mod terminal;
mod transfer;
mod txn;

#[path = "../support/mod.rs"]
mod support;

//! TLS on both front ends and on the command line: real sockets, real certificates, one test per rule.

mod clients;
mod command_line;
mod handshakes;
mod http;
mod idle;
mod papers;
#[path = "../cli/program.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod program;
mod reload;
mod resp;
#[path = "../support/mod.rs"]
mod support;
mod world;

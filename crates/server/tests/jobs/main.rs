//! Jobs and locks over the network: all commands, waiting, transactions, fencing, permissions.

#[path = "../support/mod.rs"]
mod support;

mod rights;
mod speaker;
mod together;
mod waiting;
mod words;
#[path = "../security/world.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod world;

//! The remote client: broken connections, silent and malformed servers, many threads on one client, TLS,
//! and users with limited permissions.

#[path = "../support/mod.rs"]
mod support;

mod archiving;
mod asynchronous;
mod breaking;
mod encrypted;
mod freezing;
mod giving_up;
mod jobs;
mod keyed;
mod limited;
#[path = "../tls/papers.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod papers;
mod proxy;
mod recorded;
mod records;
mod rights;
mod runs;
mod sending;
mod session_client;
mod session_fixture;
mod sessions;
mod sharded;
mod sharing;
mod strangers;
#[path = "../security/world.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod world;

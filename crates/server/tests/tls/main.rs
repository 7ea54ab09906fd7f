//! TLS on both front ends: real sockets, real certificates, one test per rule.

mod clients;
mod handshakes;
mod http;
mod papers;
mod reload;
mod resp;
#[path = "../support/mod.rs"]
mod support;
mod world;

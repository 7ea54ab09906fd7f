//! Users: who is asked, what they may do on each face, and what is recorded of it.

#[path = "../support/mod.rs"]
mod support;

mod apart;
mod audit;
mod blind;
mod cli;
mod clients;
mod http;
mod keyed;
mod limits;
mod login;
mod records;
mod rights;
mod runs;
mod sessions;
mod table;
mod world;

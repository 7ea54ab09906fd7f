//! Users: authentication, permissions on each front end, and the audit log.

#[path = "../support/mod.rs"]
mod support;

mod apart;
mod audit;
mod blind;
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

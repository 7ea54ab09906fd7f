//! The program as a server: it is killed, terminated and reloaded, and writes its log and spans.

mod child;
mod collector;
mod idle;
mod killing;
mod log;
#[path = "../../../server/tests/tls/papers.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod papers;
#[path = "../process/mod.rs"]
mod process;
mod reload;
mod scratch;
mod session_client;
#[path = "../../../server/tests/remote/session_fixture.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod session_fixture;
mod spans;
#[path = "../../../server/tests/support/mod.rs"]
mod support;
#[path = "../../../server/tests/tls/world.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod tls_world;

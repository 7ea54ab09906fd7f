//! Route for the slow log of the RESP face.

use super::Http;
use super::json::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

/// A command that was slow.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SlowCommand {
    /// Its number, counted up while the server runs.
    id: u64,
    /// When its reply was there, in microseconds since 1970.
    at_us: u64,
    /// How long it took, the sync of its batch included.
    took_us: u64,
    /// Its name and the beginning of its first argument; no values.
    command: Vec<String>,
    /// Where the client is.
    client: String,
    /// What the client calls itself.
    client_name: String,
}

/// Commands that were slow.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SlowCommands {
    /// The newest first.
    slow: Vec<SlowCommand>,
}

/// Commands of Redis clients that took longer than they should.
#[utoipa::path(
    get, path = "/v1/slowlog", tag = "operation", operation_id = "slow_log",
    responses((status = 200, description = "The newest first", body = SlowCommands))
)]
pub(crate) async fn show(State(app): State<Http>) -> Json<SlowCommands> {
    let entries = app.resp().map(|shared| shared.slow_log.newest(usize::MAX)).unwrap_or_default();
    let slow = entries.into_iter().map(|entry| SlowCommand {
        id: entry.id,
        at_us: entry.at_us,
        took_us: entry.took_us,
        command: entry.words,
        client: entry.client,
        client_name: entry.client_name,
    });
    Json::of(SlowCommands { slow: slow.collect() })
}

//! Health checks: liveness and readiness of the server.

use super::Http;
use super::json::Json;
use super::refusal::{Answered, Problem, Refusal};
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

/// How things stand.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// Always `ok`: otherwise the answer is an error.
    status: &'static str,
    /// The newest visible revision.
    revision: u64,
}

/// Answers while the process does.
#[utoipa::path(
    get, path = "/healthz", tag = "operation", operation_id = "health",
    responses((status = 200, description = "The process answers", body = Health))
)]
pub(crate) async fn alive(State(app): State<Http>) -> Json<Health> {
    Json::of(Health { status: "ok", revision: app.db().revision() })
}

/// Says whether the database is open and takes writes.
#[utoipa::path(
    get, path = "/readyz", tag = "operation", operation_id = "readiness",
    responses(
        (status = 200, description = "It is", body = Health),
        (status = 503, description = "It is not; the message says why", body = Problem),
    )
)]
pub(crate) async fn ready(State(app): State<Http>) -> Answered<Json<Health>> {
    if app.is_draining() {
        return Err(Refusal::unavailable("Draining", "the server is stopping: ask another one"));
    }
    let db = app.db().clone();
    let found = app.look(move || {
        // A read fails when the database is closed.
        db.cells().get("readyz")?;
        Ok((db.revision(), db.write_refusal()))
    });
    match found.await? {
        (revision, None) => Ok(Json::of(Health { status: "ok", revision })),
        (_, Some(why)) => Err(Refusal::read_only(why.message())),
    }
}

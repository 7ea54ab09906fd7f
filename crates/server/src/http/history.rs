//! Route for the history of a cell: every version that is kept.

use super::Http;
use super::extract::{Asked, Named, cells_of, point};
use super::forms::{Raw, raw};
use super::json::Json;
use super::refusal::{Answered, Problem};
use axum::extract::State;
use mainstay::limits::PAGE_DEFAULT;
use mainstay::{At, HistoryEntry};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which versions are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryArguments {
    /// At most this many; 1,000 without it, 100,000 at most.
    pub(super) limit: Option<usize>,
    /// Only counters below this one.
    pub(super) before: Option<u64>,
    /// The branch; `main` without it.
    pub(super) branch: Option<String>,
    /// The history as of this revision.
    pub(super) rev: Option<u64>,
    /// The history as of this stamp, in microseconds.
    pub(super) at: Option<u64>,
}

/// The versions of a cell.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HistoryForm {
    /// Newest first.
    versions: Vec<VersionForm>,
    /// Pass this as `before` for the next page; null at the end.
    next: Option<u64>,
}

/// One version of a cell.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VersionForm {
    /// The cell's counter after this version.
    counter: u64,
    /// How many writes the version stands for.
    writes: u64,
    /// Whether the cell was deleted here.
    deleted: bool,
    /// The value; left out where the cell was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    value: Option<Raw>,
    /// When it was written, in microseconds.
    stamp: u64,
    /// The transaction that wrote it.
    revision: u64,
    /// When it expires or expired, in microseconds.
    expires: Option<u64>,
}

impl From<HistoryEntry> for VersionForm {
    fn from(entry: HistoryEntry) -> VersionForm {
        let HistoryEntry { counter, writes, value, stamp, revision, expires } = entry;
        let deleted = value.is_none();
        let value = value.as_ref().map(raw);
        VersionForm { counter, writes, deleted, value, stamp, revision, expires }
    }
}

/// The versions of a cell, newest first, deletions included.
#[utoipa::path(
    get, path = "/v1/history/{name}", tag = "cells", operation_id = "cell_history",
    params(("name" = String, Path, description = "The cell; it may hold slashes"), HistoryArguments),
    responses(
        (status = 200, description = "A page of versions; none for a cell that never was", body = HistoryForm),
        (status = 410, description = "The point in time is no longer kept", body = Problem),
    )
)]
pub(crate) async fn history(
    State(app): State<Http>,
    Named(name): Named,
    Asked(asked): Asked<HistoryArguments>,
) -> Answered<Json<HistoryForm>> {
    let db = app.db().clone();
    app.slowly(move || {
        let cells = cells_of(&db, asked.branch.as_deref())?;
        let limit = asked.limit.unwrap_or(PAGE_DEFAULT);
        let entries = match point(asked.rev, asked.at)? {
            At::Latest => cells.history(&name, limit, asked.before)?,
            at => cells.at(at)?.history(&name, limit, asked.before)?,
        };
        let is_full = entries.len() == limit;
        let next = entries.last().filter(|_| is_full).map(|entry| entry.counter);
        let versions = entries.into_iter().map(VersionForm::from).collect();
        Ok(Json::of(HistoryForm { versions, next }))
    })
    .await
}

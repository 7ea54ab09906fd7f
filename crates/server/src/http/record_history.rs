//! Route for the history of a record: every version that is kept.

use super::Http;
use super::extract::{Asked, Named, point, records_of};
use super::forms::{Raw, shown};
use super::history::HistoryArguments;
use super::json::Json;
use super::refusal::{Answered, Problem};
use axum::extract::State;
use mainstay::limits::PAGE_DEFAULT;
use mainstay::{At, RecordHistoryEntry};
use serde::Serialize;
use utoipa::ToSchema;

/// The versions of a record.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecordHistoryForm {
    /// Newest first.
    versions: Vec<RecordVersionForm>,
    /// Pass this as `before` for the next page; null at the end.
    next: Option<u64>,
}

/// One version of a record.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecordVersionForm {
    /// The record's counter after this version.
    counter: u64,
    /// How many writes the version stands for.
    writes: u64,
    /// Whether the record was deleted here.
    deleted: bool,
    /// The fields; left out where the record was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    fields: Option<Raw>,
    /// When it was written, in microseconds.
    stamp: u64,
    /// The transaction that wrote it.
    revision: u64,
    /// When it expires or expired, in microseconds.
    expires: Option<u64>,
}

impl From<RecordHistoryEntry> for RecordVersionForm {
    fn from(entry: RecordHistoryEntry) -> RecordVersionForm {
        let RecordHistoryEntry { counter, writes, fields, stamp, revision, expires } = entry;
        let deleted = fields.is_none();
        let fields = fields.as_ref().map(shown);
        RecordVersionForm { counter, writes, deleted, fields, stamp, revision, expires }
    }
}

/// The versions of a record, newest first, deletions included.
#[utoipa::path(
    get, path = "/v1/record-history/{key}", tag = "records", operation_id = "record_history",
    params(("key" = String, Path, description = "The record; it may hold slashes"), HistoryArguments),
    responses(
        (status = 200, description = "A page of versions; none for a record that never was", body = RecordHistoryForm),
        (status = 410, description = "The point in time is no longer kept", body = Problem),
    )
)]
pub(crate) async fn history(
    State(app): State<Http>,
    Named(key): Named,
    Asked(asked): Asked<HistoryArguments>,
) -> Answered<Json<RecordHistoryForm>> {
    let db = app.db().clone();
    app.slowly(move || {
        let records = records_of(&db, asked.branch.as_deref())?;
        let limit = asked.limit.unwrap_or(PAGE_DEFAULT);
        let entries = match point(asked.rev, asked.at)? {
            At::Latest => records.history(&key, limit, asked.before)?,
            at => records.at(at)?.history(&key, limit, asked.before)?,
        };
        let is_full = entries.len() == limit;
        let next = entries.last().filter(|_| is_full).map(|entry| entry.counter);
        let versions = entries.into_iter().map(RecordVersionForm::from).collect();
        Ok(Json::of(RecordHistoryForm { versions, next }))
    })
    .await
}

//! Routes for record indexes: declare, drop, inspect progress, explain a scan.

use super::Http;
use super::access::Asking;
use super::branches::{Removed, removed, run};
use super::extract::{Asked, Named, Text, records_of};
use super::forms::fields_of;
use super::json::Json;
use super::records::filters;
use super::refusal::{Answered, Problem, Refusal};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use mainstay::{Answer, Database, IndexCommand, IndexInfo};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// An index, as it stands.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IndexForm {
    /// Its number, never used again.
    id: u32,
    /// Over records whose keys begin with this.
    prefix: String,
    /// Over these fields, the first one first.
    fields: Vec<String>,
    /// The revision that declared it.
    created: u64,
    /// The revision from which on it serves scans; null while it is being filled.
    ready: Option<u64>,
    /// How many records of before have been looked at to fill it.
    filled: u64,
}

impl From<IndexInfo> for IndexForm {
    fn from(info: IndexInfo) -> IndexForm {
        let IndexInfo { id, prefix, fields, created, ready, filled } = info;
        let fields = fields.iter().map(|field| field.to_text()).collect();
        IndexForm { id, prefix, fields, created, ready, filled }
    }
}

/// All indexes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IndexList {
    /// In the order of their numbers.
    indexes: Vec<IndexForm>,
}

/// Lists all indexes over records.
#[utoipa::path(
    get, path = "/v1/record-indexes", tag = "records", operation_id = "list_indexes",
    responses((status = 200, description = "All indexes, in the order of their numbers", body = IndexList))
)]
pub(crate) async fn list(State(app): State<Http>) -> Answered<Json<IndexList>> {
    let db = app.db().clone();
    app.slowly(move || {
        let indexes = db.records().indexes()?.into_iter().map(IndexForm::from).collect();
        Ok(Json::of(IndexList { indexes }))
    })
    .await
}

/// Looks at one index: whether it serves yet, and how many records have been filled in.
#[utoipa::path(
    get, path = "/v1/record-indexes/{id}", tag = "records", operation_id = "get_index",
    params(("id" = String, Path, description = "The number of the index")),
    responses(
        (status = 200, description = "The index, as it stands", body = IndexForm),
        (status = 404, description = "There is none of this number", body = Problem),
    )
)]
pub(crate) async fn info(State(app): State<Http>, Named(id): Named) -> Answered<Json<IndexForm>> {
    let db = app.db().clone();
    let id = number(&id)?;
    app.slowly(move || find(&db, id).map(Json::of)).await
}

fn find(db: &Database, id: u32) -> Answered<IndexForm> {
    let found = db.records().indexes()?.into_iter().find(|index| index.id == id);
    let missing = || format!("there is no index {id}: /v1/record-indexes lists them");
    Ok(found.ok_or_else(|| Refusal::not_found("IndexNotFound", missing()))?.into())
}

fn number(id: &str) -> Answered<u32> {
    id.parse().map_err(|_| Refusal::invalid(format!("{id:?} is no number of an index: list them")))
}

/// The index to declare.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeclareForm {
    /// Over records whose keys begin with this; all without it.
    #[serde(default)]
    prefix: String,
    /// Over these fields, the first one first.
    fields: Vec<String>,
}

/// An index that was declared.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Declared {
    /// Its number.
    id: u64,
    /// The transaction's revision.
    revision: u64,
    /// Whether an earlier request with this Idempotency-Key did the work.
    repeated: bool,
}

/// Declares an index; scans use it by themselves once what was written before is filled in.
#[utoipa::path(
    post, path = "/v1/record-indexes", tag = "records", operation_id = "add_index", request_body = DeclareForm,
    params(("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes")),
    responses(
        (status = 201, description = "It is declared, and being filled", body = Declared),
        (status = 400, description = "No field, too many of them, or one that makes no sense", body = Problem),
        (status = 409, description = "There is one over these fields", body = Problem),
    )
)]
pub(crate) async fn add(
    State(app): State<Http>,
    asking: Asking,
    headers: HeaderMap,
    body: Body,
) -> Answered<(StatusCode, Json<Declared>)> {
    let body = Text::read(&app, &headers, body, app.settings().value_limit_bytes).await?;
    let DeclareForm { prefix, fields } = body.form(&app).await?;
    let command = IndexCommand::Add { prefix, fields: fields_of(fields)? };
    let receipt = run(&app, &asking, &headers, command).await?;
    let Some(&Answer::Count(id)) = receipt.answers.first() else {
        return Err(Refusal::foreign(receipt.repeated));
    };
    let declared = Declared { id, revision: receipt.revision, repeated: receipt.repeated };
    Ok((StatusCode::CREATED, Json::of(declared)))
}

/// Drops an index; scans go on without it.
#[utoipa::path(
    delete, path = "/v1/record-indexes/{id}", tag = "records", operation_id = "drop_index",
    params(
        ("id" = String, Path, description = "The number of the index"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes"),
    ),
    responses((status = 200, description = "It is gone", body = Removed))
)]
pub(crate) async fn drop(
    State(app): State<Http>,
    asking: Asking,
    Named(id): Named,
    headers: HeaderMap,
) -> Answered<Json<Removed>> {
    let command = IndexCommand::Drop { id: number(&id)? };
    removed(run(&app, &asking, &headers, command).await?)
}

/// Which scan is meant.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplainArguments {
    /// Only keys that begin with this.
    #[serde(default)]
    #[param(required = false)]
    prefix: String,
    /// Only records whose fields pass: a JSON object, as {"state": "pending", "timeout_at": {"lt": 1000}}. Tests are eq, ne, lt, le, gt, ge and in.
    #[serde(rename = "where")]
    tests: Option<String>,
    /// The branch; `main` without it.
    branch: Option<String>,
}

/// How a scan would go about it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Explained {
    /// For people: by which index, or why by none.
    explanation: String,
}

/// How a scan would go about it: by which index, or why by none.
#[utoipa::path(
    get, path = "/v1/record-explain", tag = "records", operation_id = "explain_records", params(ExplainArguments),
    responses(
        (status = 200, description = "What it would do", body = Explained),
        (status = 400, description = "A filter that makes no sense", body = Problem),
    )
)]
pub(crate) async fn explain(
    State(app): State<Http>,
    Asked(asked): Asked<ExplainArguments>,
) -> Answered<Json<Explained>> {
    let db = app.db().clone();
    app.slowly(move || {
        let filters = filters(asked.tests.as_deref())?;
        let records = records_of(&db, asked.branch.as_deref())?;
        Ok(Json::of(Explained { explanation: records.explain(&asked.prefix, &filters)? }))
    })
    .await
}

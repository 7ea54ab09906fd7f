//! Routes for tags, which are named revisions.

use super::Http;
use super::access::Asking;
use super::branches::{Removed, removed, revision, revision_of, run};
use super::extract::{Named, Text, point};
use super::json::Json;
use super::refusal::{Answered, Problem};
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use mainstay::{BranchCommand, MAIN, Name, TagInfo};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A pinned revision.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TagForm {
    /// Its name.
    name: String,
    /// The branch it belongs to.
    branch: String,
    /// The revision it pins.
    revision: u64,
}

impl From<TagInfo> for TagForm {
    fn from(info: TagInfo) -> TagForm {
        let TagInfo { name, branch, revision } = info;
        TagForm { name, branch, revision }
    }
}

/// All tags.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TagList {
    /// In the order of their names.
    tags: Vec<TagForm>,
}

/// Lists all tags.
#[utoipa::path(
    get, path = "/v1/tags", tag = "tags", operation_id = "list_tags",
    responses((status = 200, description = "All tags, in the order of their names", body = TagList))
)]
pub(crate) async fn list(State(app): State<Http>) -> Answered<Json<TagList>> {
    let db = app.db().clone();
    let encode =
        move || Ok(Json::of(TagList { tags: db.tags().into_iter().map(TagForm::from).collect() }));
    app.slowly(encode).await
}

/// What to pin.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PinForm {
    /// The branch; `main` without it.
    branch: Option<String>,
    /// The revision to pin; the newest without it.
    rev: Option<u64>,
    /// The stamp to pin, in microseconds.
    at: Option<u64>,
}

/// What was pinned.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Pinned {
    /// The tag.
    name: String,
    /// The revision it pins.
    revision: u64,
    /// Whether an earlier request with this Idempotency-Key did the work.
    repeated: bool,
}

/// Pins a revision by name; it stays readable while the tag is there.
#[utoipa::path(
    put, path = "/v1/tags/{name}", tag = "tags", operation_id = "put_tag", request_body = PinForm,
    params(
        ("name" = String, Path, description = "The tag; it may hold slashes"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes"),
    ),
    responses(
        (status = 200, description = "It is pinned", body = Pinned),
        (status = 409, description = "One of this name exists", body = Problem),
        (status = 410, description = "The point in time is no longer kept", body = Problem),
    )
)]
pub(crate) async fn put(
    State(app): State<Http>,
    asking: Asking,
    Named(name): Named,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<Pinned>> {
    let body = Text::read(&app, &headers, body, app.settings().value_limit_bytes).await?;
    let form: PinForm = body.form_or_default(&app).await?;
    let at = revision_of(&app, point(form.rev, form.at)?).await?;
    let branch = Name::new(form.branch.as_deref().unwrap_or(MAIN))?;
    let command = BranchCommand::Tag { name: Name::new(&name)?, branch, at };
    let receipt = run(&app, &asking, &headers, command).await?;
    Ok(Json::of(Pinned { name, revision: revision(&receipt)?, repeated: receipt.repeated }))
}

/// Removes a tag.
#[utoipa::path(
    delete, path = "/v1/tags/{name}", tag = "tags", operation_id = "delete_tag",
    params(
        ("name" = String, Path, description = "The tag; it may hold slashes"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes"),
    ),
    responses((status = 200, description = "It is gone", body = Removed))
)]
pub(crate) async fn delete(
    State(app): State<Http>,
    asking: Asking,
    Named(name): Named,
    headers: HeaderMap,
) -> Answered<Json<Removed>> {
    let command = BranchCommand::Untag { name: Name::new(&name)? };
    removed(run(&app, &asking, &headers, command).await?)
}

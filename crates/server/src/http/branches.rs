//! Routes for branches: list, inspect, fork, delete, compare, merge.

use super::Http;
use super::access::Asking;
use super::conditions::identified;
use super::extract::{Asked, Named, Text, point};
use super::forms::{MergeForm, Raw, raw};
use super::json::Json;
use super::refusal::{Answered, Problem, Refusal};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use mainstay::{
    Answer, At, BranchCommand, BranchInfo, Command, Database, Difference, DifferenceKind, MAIN,
    Name, Receipt, Revision, Transaction,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// What is known of a branch.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BranchForm {
    /// Its name.
    name: String,
    /// Its number, never used again.
    id: u32,
    /// The branch it was forked from; null for `main` and for imports.
    parent: Option<String>,
    /// The revision it was forked at.
    fork_revision: u64,
    /// When it was made, in microseconds.
    created: u64,
    /// How many forks lie between it and its root.
    depth: usize,
    /// How many branches were forked from it.
    children: usize,
}

impl From<BranchInfo> for BranchForm {
    fn from(info: BranchInfo) -> BranchForm {
        let BranchInfo { name, id, parent, fork_revision, created, depth, children } = info;
        BranchForm { name, id, parent, fork_revision, created, depth, children }
    }
}

/// All branches.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BranchList {
    /// In the order of their names.
    branches: Vec<BranchForm>,
}

/// Lists all branches.
#[utoipa::path(
    get, path = "/v1/branches", tag = "branches", operation_id = "list_branches",
    responses((status = 200, description = "All branches, in the order of their names", body = BranchList))
)]
pub(crate) async fn list(State(app): State<Http>) -> Answered<Json<BranchList>> {
    let db = app.db().clone();
    app.slowly(move || {
        let branches = db.branches().into_iter().map(BranchForm::from).collect();
        Ok(Json::of(BranchList { branches }))
    })
    .await
}

/// Looks at one branch.
#[utoipa::path(
    get, path = "/v1/branches/{name}", tag = "branches", operation_id = "get_branch",
    params(("name" = String, Path, description = "The branch; it may hold slashes")),
    responses(
        (status = 200, description = "What is known of it", body = BranchForm),
        (status = 404, description = "There is none of this name", body = Problem),
    )
)]
pub(crate) async fn info(
    State(app): State<Http>,
    Named(name): Named,
) -> Answered<Json<BranchForm>> {
    let db = app.db().clone();
    app.slowly(move || find(&db, &name).map(Json::of)).await
}

fn find(db: &Database, name: &str) -> Answered<BranchForm> {
    let found = db.branches().into_iter().find(|branch| branch.name == name);
    let missing = || format!("there is no branch {name:?}: /v1/branches lists them");
    Ok(found.ok_or_else(|| Refusal::not_found("BranchNotFound", missing()))?.into())
}

/// The branch to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkForm {
    /// The new branch.
    name: String,
    /// The branch it starts from; `main` without it.
    from: Option<String>,
    /// The revision it starts at.
    rev: Option<u64>,
    /// The stamp it starts at, in microseconds.
    at: Option<u64>,
}

/// A branch that was made.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Forked {
    /// Its name.
    name: String,
    /// The revision it starts at.
    fork_revision: u64,
    /// Whether an earlier request with this Idempotency-Key did the work.
    repeated: bool,
}

/// Makes a branch that starts as another one is, or was.
#[utoipa::path(
    post, path = "/v1/branches", tag = "branches", operation_id = "fork_branch", request_body = ForkForm,
    params(("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes")),
    responses(
        (status = 201, description = "It is there", body = Forked),
        (status = 404, description = "The branch to start from is absent", body = Problem),
        (status = 409, description = "One of this name exists", body = Problem),
    )
)]
pub(crate) async fn fork(
    State(app): State<Http>,
    asking: Asking,
    headers: HeaderMap,
    body: Body,
) -> Answered<(StatusCode, Json<Forked>)> {
    let body = Text::read(&app, &headers, body, app.settings().value_limit_bytes).await?;
    let form: ForkForm = body.form(&app).await?;
    let name = Name::new(&form.name)?;
    let from = Name::new(form.from.as_deref().unwrap_or(MAIN))?;
    let at = revision_of(&app, point(form.rev, form.at)?).await?;
    let receipt = run(&app, &asking, &headers, BranchCommand::Fork { name, from, at }).await?;
    let fork_revision = revision(&receipt)?;
    let forked = Forked { name: form.name, fork_revision, repeated: receipt.repeated };
    Ok((StatusCode::CREATED, Json::of(forked)))
}

/// What removing answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Removed {
    /// Whether there was something to remove.
    deleted: bool,
    /// The transaction's revision.
    revision: u64,
    /// Whether an earlier request with this Idempotency-Key did the work.
    repeated: bool,
}

/// Deletes a branch and what was written on it.
#[utoipa::path(
    delete, path = "/v1/branches/{name}", tag = "branches", operation_id = "delete_branch",
    params(
        ("name" = String, Path, description = "The branch; it may hold slashes"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes"),
    ),
    responses(
        (status = 200, description = "It is gone", body = Removed),
        (status = 409, description = "`main` and branches with children stay", body = Problem),
    )
)]
pub(crate) async fn delete(
    State(app): State<Http>,
    asking: Asking,
    Named(name): Named,
    headers: HeaderMap,
) -> Answered<Json<Removed>> {
    let command = BranchCommand::Delete { name: Name::new(&name)? };
    removed(run(&app, &asking, &headers, command).await?)
}

/// Which branches are compared.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct DiffArguments {
    /// The first branch.
    a: String,
    /// The second branch.
    b: String,
}

/// What two branches do not agree on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DiffForm {
    /// In the order of the keys.
    differences: Vec<DifferenceForm>,
}

/// A key that two branches do not agree on; a side where it is absent is left out.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DifferenceForm {
    /// The kind of state.
    #[schema(example = "cells")]
    contract: String,
    /// The key.
    key: String,
    /// Who changed it since the common ancestor: `only_a`, `only_b` or `both`.
    kind: &'static str,
    /// What the common ancestor holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    base: Option<Raw>,
    /// What the first branch holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    a: Option<Raw>,
    /// What the second branch holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    b: Option<Raw>,
}

impl From<Difference> for DifferenceForm {
    fn from(difference: Difference) -> DifferenceForm {
        let Difference { contract, key, kind, base, a, b } = difference;
        let kind = match kind {
            DifferenceKind::OnlyA => "only_a",
            DifferenceKind::OnlyB => "only_b",
            DifferenceKind::Both => "both",
        };
        let [base, a, b] = [base, a, b].map(|value| value.as_ref().map(raw));
        let contract = format!("{contract:?}").to_lowercase();
        DifferenceForm { contract, key, kind, base, a, b }
    }
}

/// Compares two branches against their common ancestor.
#[utoipa::path(
    get, path = "/v1/diff", tag = "branches", operation_id = "diff_branches", params(DiffArguments),
    responses(
        (status = 200, description = "The keys they do not agree on", body = DiffForm),
        (status = 404, description = "A branch is absent", body = Problem),
    )
)]
pub(crate) async fn diff(
    State(app): State<Http>,
    Asked(asked): Asked<DiffArguments>,
) -> Answered<Json<DiffForm>> {
    let db = app.db().clone();
    app.slowly(move || {
        let differences = db.diff(&asked.a, &asked.b)?;
        let differences = differences.into_iter().map(DifferenceForm::from).collect();
        Ok(Json::of(DiffForm { differences }))
    })
    .await
}

/// A merge that was made.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Merged {
    /// The revision of the merge.
    revision: u64,
    /// Whether an earlier request with this Idempotency-Key did the work.
    repeated: bool,
}

/// Brings the changes of one branch into another, in one transaction.
#[utoipa::path(
    post, path = "/v1/merges", tag = "branches", operation_id = "merge_branches", request_body = MergeForm,
    params(("Idempotency-Key" = Option<String>, Header, description = "Names the request, 1 to 64 bytes")),
    responses(
        (status = 200, description = "It is merged", body = Merged),
        (status = 404, description = "A branch is absent", body = Problem),
        (status = 409, description = "Both sides changed the `keys`; nothing was changed", body = Problem),
    )
)]
pub(crate) async fn merge(
    State(app): State<Http>,
    asking: Asking,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<Merged>> {
    let body = Text::read(&app, &headers, body, app.settings().value_limit_bytes).await?;
    let command = body.form::<MergeForm>(&app).await?.command()?;
    let receipt = run(&app, &asking, &headers, command).await?;
    Ok(Json::of(Merged { revision: revision(&receipt)?, repeated: receipt.repeated }))
}

/// Executes one command on branches, tags or indexes.
pub(crate) async fn run(
    app: &Http,
    asking: &Asking,
    headers: &HeaderMap,
    command: impl Into<Command>,
) -> Answered<Receipt> {
    app.write(asking, identified(headers, Transaction::new().step(command.into()))?).await
}

/// Extracts the revision from a receipt's answer.
pub(crate) fn revision(receipt: &Receipt) -> Answered<Revision> {
    match receipt.answers.first() {
        Some(&Answer::Revision(revision)) => Ok(revision),
        _ => Err(Refusal::foreign(receipt.repeated)),
    }
}

/// Extracts the outcome of a removal from its receipt.
pub(crate) fn removed(receipt: Receipt) -> Answered<Json<Removed>> {
    match receipt.answers.first() {
        Some(&Answer::Did(deleted)) => {
            let Receipt { revision, repeated, .. } = receipt;
            Ok(Json::of(Removed { deleted, revision, repeated }))
        }
        _ => Err(Refusal::foreign(receipt.repeated)),
    }
}

/// Resolves a point in time to a revision; `None` means the newest.
pub(crate) async fn revision_of(app: &Http, at: At) -> Answered<Option<Revision>> {
    let db = app.db().clone();
    match at {
        At::Latest => Ok(None),
        At::Revision(revision) => Ok(Some(revision)),
        At::Stamp(stamp) => app.slowly(move || Ok(Some(db.revision_at(stamp)?))).await,
    }
}

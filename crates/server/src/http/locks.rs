//! Routes for locks: acquire, renew, release, inspect.

use super::Http;
use super::access::Asking;
use super::cells::OnBranch;
use super::extract::{Asked, Named, small_form as read};
use super::json::Json;
use super::refusal::{Answered, Problem, Refusal};
use crate::jobs::{Order, Outcome};
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use mainstay::MAIN;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};

/// Who wants a lock.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TakeForm {
    /// Its owner; an owner that has it already gets its token again.
    owner: String,
    /// How long it is held unless it is held on.
    lease_ms: u64,
}

/// A lock that was taken.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenForm {
    /// Higher for every later holder: with it others can be fenced.
    token: u64,
}

/// Takes a lock.
#[utoipa::path(
    put, path = "/v1/locks/{name}", tag = "locks", operation_id = "take_lock", request_body = TakeForm,
    params(("name" = String, Path, description = "The lock; it may hold slashes"), OnBranch),
    responses(
        (status = 200, description = "It is taken", body = TokenForm),
        (status = 409, description = "`LockHeld`: another owner has it", body = Problem),
    )
)]
pub(crate) async fn take(
    State(app): State<Http>,
    asking: Asking,
    Named(name): Named,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<TokenForm>> {
    let TakeForm { owner, lease_ms } = read(&app, &headers, body).await?;
    let order = Order::Take(name.clone(), owner, Duration::from_millis(lease_ms));
    match app.order(&asking, place.branch, order).await? {
        Outcome::Taken(Some(token)) => Ok(Json::of(TokenForm { token })),
        Outcome::Taken(None) => Err(Refusal::held(&name)),
        _ => Err(Refusal::lost()),
    }
}

/// How a lock is held on.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenewForm {
    /// What taking it gave.
    token: u64,
    /// How long it is held from now on.
    lease_ms: u64,
}

/// Holds a lock on: its lease begins anew.
#[utoipa::path(
    patch, path = "/v1/locks/{name}", tag = "locks", operation_id = "renew_lock", request_body = RenewForm,
    params(("name" = String, Path, description = "The lock; it may hold slashes"), OnBranch),
    responses(
        (status = 200, description = "It is held on", body = TokenForm),
        (status = 409, description = "`Fenced`: it is held no more", body = Problem),
    )
)]
pub(crate) async fn renew(
    State(app): State<Http>,
    asking: Asking,
    Named(name): Named,
    Asked(place): Asked<OnBranch>,
    headers: HeaderMap,
    body: Body,
) -> Answered<Json<TokenForm>> {
    let RenewForm { token, lease_ms } = read(&app, &headers, body).await?;
    let order = Order::Renew(name, token, Duration::from_millis(lease_ms));
    app.order(&asking, place.branch, order).await?;
    Ok(Json::of(TokenForm { token }))
}

/// Which lock is given back.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct FreeArguments {
    /// What taking it gave.
    token: u64,
    /// The branch; `main` without it.
    branch: Option<String>,
}

/// Whether a lock was held.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FreedForm {
    /// False when nobody had it any more.
    freed: bool,
}

/// Gives a lock back.
#[utoipa::path(
    delete, path = "/v1/locks/{name}", tag = "locks", operation_id = "free_lock",
    params(("name" = String, Path, description = "The lock; it may hold slashes"), FreeArguments),
    responses(
        (status = 200, description = "Whoever had it with this token has it no more", body = FreedForm),
    )
)]
pub(crate) async fn free(
    State(app): State<Http>,
    asking: Asking,
    Named(name): Named,
    Asked(asked): Asked<FreeArguments>,
) -> Answered<Json<FreedForm>> {
    match app.order(&asking, asked.branch, Order::Free(name, asked.token)).await? {
        Outcome::Freed(freed) => Ok(Json::of(FreedForm { freed })),
        _ => Err(Refusal::lost()),
    }
}

/// Who has a lock.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HolderForm {
    /// Its owner.
    owner: String,
    /// Its token.
    token: u64,
    /// When its lease ends, in microseconds.
    until: Option<u64>,
}

/// Says who has a lock.
#[utoipa::path(
    get, path = "/v1/locks/{name}", tag = "locks", operation_id = "get_lock",
    params(("name" = String, Path, description = "The lock; it may hold slashes"), OnBranch),
    responses(
        (status = 200, description = "Its holder", body = HolderForm),
        (status = 404, description = "Nobody has it", body = Problem),
    )
)]
pub(crate) async fn get(
    State(app): State<Http>,
    asking: Asking,
    Named(name): Named,
    Asked(place): Asked<OnBranch>,
) -> Answered<Json<HolderForm>> {
    let desk = app.jobs().clone();
    asking.user.may_touch(desk.keys().lock(&name).as_bytes())?;
    app.slowly(move || {
        let holder = desk.holder(place.branch.as_deref().unwrap_or(MAIN), &name)?;
        let holder = holder.ok_or_else(|| {
            Refusal::not_found("LockFree", format!("nobody has the lock {name:?}"))
        })?;
        Ok(Json::of(HolderForm { owner: holder.owner, token: holder.token, until: holder.until }))
    })
    .await
}

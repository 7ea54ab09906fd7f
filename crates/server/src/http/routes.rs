//! The route table. The router is built from it, and the OpenAPI document is checked against it.

use super::access::{Door, enter};
use super::metrics::count;
use super::refusal::Refusal;
use super::{
    Http, branches, cells, docs, feed, health, history, indexes, job_reads, jobs, leftover, locks,
    metrics, openapi, outbox, records, runs, sessions,
};
use super::{
    record_history, slow_log, snapshots, spaces, states, tags, tails, transactions, transfer,
};
use crate::security::{Area, Right};
use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, header};
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};
use tower_http::timeout::RequestBodyTimeoutLayer;

/// A route: its method and its path, as the OpenAPI document writes it.
pub type RouteName = (&'static str, String);

type Route = (&'static str, &'static str, MethodRouter<Http>, Door);

const READ: Door = Door::needs(Right::read(Area::Cells));
const WRITE: Door = Door::needs(Right::write(Area::Cells));
const READ_RECORDS: Door = Door::needs(Right::read(Area::Records));
const WRITE_RECORDS: Door = Door::needs(Right::write(Area::Records));
const READ_RUNS: Door = Door::needs(Right::read(Area::Runs));
const WRITE_RUNS: Door = Door::needs(Right::write(Area::Runs));
/// Reading the outbox needs access to all keys. Writing is checked against the subject of each message.
const READ_OUTBOX: Door = Door::needs(Right::read(Area::Outbox)).everything();
const WRITE_OUTBOX: Door = Door::needs(Right::write(Area::Outbox));
/// Rights on keyed state apply to the name of the space.
const READ_KEYED: Door = Door::needs(Right::read(Area::Keyed));
const WRITE_KEYED: Door = Door::needs(Right::write(Area::Keyed));
/// Rights on sessions apply to the id of the session.
const READ_SESSIONS: Door = Door::needs(Right::read(Area::Sessions));
const WRITE_SESSIONS: Door = Door::needs(Right::write(Area::Sessions));
/// Branches and tags. Changing them needs access to all keys.
const LOOK: Door = Door::needs(Right::read(Area::Branches));
const CHANGE: Door = Door::needs(Right::write(Area::Branches)).everything();
/// Exports, backups, imports and indexes contain all keys.
const TAKE: Door = Door::needs(Right::read(Area::Admin)).everything();
const GIVE: Door = Door::needs(Right::write(Area::Admin)).everything();
/// The feed needs access to the requested prefix.
const FEED: Door = Door::needs(Right::read(Area::Feed)).range();
const SERVER: Door = Door::needs(Right::read(Area::Server));
/// Each command of the transaction is checked later.
const MIX: Door = Door::needs(
    Right::either(Area::Cells)
        .or(Area::Records)
        .or(Area::Runs)
        .or(Area::Outbox)
        .or(Area::Keyed)
        .or(Area::Sessions),
);
/// Operations on jobs and locks may take several transactions, so they cannot be requests of a session.
const ORDER: Door = WRITE_RECORDS.apart();

/// Routes on data. They are separate so that one layer can wrap all of them.
fn data() -> Vec<Route> {
    vec![
        ("GET", "/v1/cells", get(cells::list), READ.range()),
        ("GET", "/v1/cells/{*name}", get(cells::get), READ.name()),
        ("PUT", "/v1/cells/{*name}", put(cells::put), WRITE.name()),
        ("DELETE", "/v1/cells/{*name}", delete(cells::delete), WRITE.name()),
        ("POST", "/v1/incr/{*name}", post(cells::incr), WRITE.name()),
        ("GET", "/v1/history/{*name}", get(history::history), READ.name()),
        ("GET", "/v1/records", get(records::list), READ_RECORDS.range()),
        ("GET", "/v1/records/{*key}", get(records::get), READ_RECORDS.name()),
        ("PUT", "/v1/records/{*key}", put(records::put), WRITE_RECORDS.name()),
        ("PATCH", "/v1/records/{*key}", patch(records::patch), WRITE_RECORDS.name()),
        ("DELETE", "/v1/records/{*key}", delete(records::delete), WRITE_RECORDS.name()),
        ("GET", "/v1/record-count", get(records::count), READ_RECORDS.range()),
        ("GET", "/v1/record-history/{*key}", get(record_history::history), READ_RECORDS.name()),
        ("GET", "/v1/record-explain", get(indexes::explain), READ_RECORDS.range()),
        ("GET", "/v1/record-indexes", get(indexes::list), READ_RECORDS.everything()),
        ("POST", "/v1/record-indexes", post(indexes::add), GIVE.recorded("rec.index")),
        ("GET", "/v1/record-indexes/{id}", get(indexes::info), READ_RECORDS.everything()),
        ("DELETE", "/v1/record-indexes/{id}", delete(indexes::drop), GIVE.recorded("rec.index")),
        ("GET", "/v1/jobs/{type}", get(job_reads::list), READ_RECORDS),
        ("GET", "/v1/jobs/{type}/{id}", get(job_reads::get), READ_RECORDS),
        ("PUT", "/v1/jobs/{type}/{id}", put(jobs::submit), ORDER),
        ("POST", "/v1/jobs/{type}/{id}/heartbeat", post(jobs::beat), ORDER),
        ("POST", "/v1/jobs/{type}/{id}/step", post(jobs::step), ORDER),
        ("POST", "/v1/jobs/{type}/{id}/complete", post(jobs::complete), ORDER),
        ("POST", "/v1/jobs/{type}/{id}/fail", post(jobs::fail), ORDER),
        ("POST", "/v1/jobs/{type}/{id}/cancel", post(jobs::cancel), ORDER),
        ("POST", "/v1/jobs/{type}/{id}/retry", post(jobs::retry), ORDER),
        ("POST", "/v1/job-graphs", post(jobs::submit_all), ORDER),
        ("POST", "/v1/job-claims/{type}", post(jobs::claim), ORDER),
        ("GET", "/v1/job-count/{type}", get(job_reads::count), READ_RECORDS),
        ("GET", "/v1/job-history/{type}/{id}", get(job_reads::history), READ_RECORDS),
        ("GET", "/v1/job-input/{type}/{id}", get(job_reads::input), READ_RECORDS),
        ("GET", "/v1/job-output/{type}/{id}", get(job_reads::output), READ_RECORDS),
        ("POST", "/v1/job-sweeps", post(job_reads::sweep), ORDER),
        ("GET", "/v1/locks/{*name}", get(locks::get), READ_RECORDS),
        ("PUT", "/v1/locks/{*name}", put(locks::take), ORDER),
        ("PATCH", "/v1/locks/{*name}", patch(locks::renew), ORDER),
        ("DELETE", "/v1/locks/{*name}", delete(locks::free), ORDER),
        ("GET", "/v1/runs", get(runs::list), READ_RUNS.range()),
        ("GET", "/v1/runs/{run}", get(runs::get), READ_RUNS.name()),
        ("PUT", "/v1/runs/{run}", put(runs::bootstrap), WRITE_RUNS.name()),
        ("DELETE", "/v1/runs/{run}", delete(runs::delete), WRITE_RUNS.name()),
        ("GET", "/v1/runs/{run}/events", get(runs::fetch), READ_RUNS.name()),
        ("POST", "/v1/runs/{run}/events", post(runs::append_events), WRITE_RUNS.name()),
        ("GET", "/v1/runs/{run}/tail", get(tails::tail), READ_RUNS.name()),
        ("GET", "/v1/runs/{run}/snapshot", get(runs::snapshot), READ_RUNS.name()),
        ("GET", "/v1/runs/{run}/projection", get(runs::project), READ_RUNS.name()),
        ("GET", "/v1/runs/{run}/alerts", get(runs::alerts), READ_RUNS.name()),
        ("POST", "/v1/run-keys", post(runs::key), READ_RUNS),
        ("GET", "/v1/outbox", get(outbox::look), READ_OUTBOX),
        ("POST", "/v1/outbox", post(outbox::put), WRITE_OUTBOX),
        ("POST", "/v1/outbox/claim", post(outbox::claim), WRITE_OUTBOX),
        ("POST", "/v1/outbox/ack", post(outbox::ack), WRITE_OUTBOX),
        ("POST", "/v1/outbox/fail", post(outbox::fail), WRITE_OUTBOX),
        ("GET", "/v1/outbox/dead", get(outbox::dead), READ_OUTBOX),
        ("POST", "/v1/outbox/dead/{id}/replay", post(outbox::replay), WRITE_OUTBOX),
        ("GET", "/v1/spaces", get(spaces::list), READ_KEYED.range()),
        ("GET", "/v1/spaces/{space}", get(spaces::info), READ_KEYED.name()),
        ("PUT", "/v1/spaces/{space}", put(spaces::declare), WRITE_KEYED.name()),
        ("DELETE", "/v1/spaces/{space}", delete(spaces::drop), WRITE_KEYED.name()),
        ("POST", "/v1/spaces/{space}/seal", post(spaces::seal), WRITE_KEYED.name().apart()),
        ("GET", "/v1/spaces/{space}/positions", get(spaces::positions), READ_KEYED.name()),
        ("GET", "/v1/spaces/{space}/waiting", get(spaces::waiting), READ_KEYED.name()),
        ("GET", "/v1/spaces/{space}/states", get(states::scan), READ_KEYED.name()),
        ("POST", "/v1/spaces/{space}/states", post(states::write), WRITE_KEYED.name()),
        ("GET", "/v1/spaces/{space}/states/{key}", get(states::get), READ_KEYED.name()),
        ("PUT", "/v1/spaces/{space}/states/{key}", put(states::put), WRITE_KEYED.name()),
        ("DELETE", "/v1/spaces/{space}/states/{key}", delete(states::delete), WRITE_KEYED.name()),
        ("GET", "/v1/spaces/{space}/items/{key}", get(states::items), READ_KEYED.name()),
        ("POST", "/v1/spaces/{space}/items/{key}", post(states::append), WRITE_KEYED.name()),
        ("GET", "/v1/spaces/{space}/snapshot", get(snapshots::take), READ_KEYED.name()),
        ("PUT", "/v1/spaces/{space}/snapshot", put(snapshots::restore), WRITE_KEYED.name().apart()),
        ("GET", "/v1/sessions", get(sessions::list), READ_SESSIONS.everything()),
        ("POST", "/v1/sessions", post(sessions::open), WRITE_SESSIONS.apart()),
        ("GET", "/v1/sessions/{session}", get(sessions::info), READ_SESSIONS.name()),
        (
            "DELETE",
            "/v1/sessions/{session}",
            delete(sessions::close),
            WRITE_SESSIONS.name().apart(),
        ),
        (
            "POST",
            "/v1/sessions/{session}/keep-alive",
            post(sessions::keep_alive),
            WRITE_SESSIONS.name().apart(),
        ),
        ("GET", "/v1/sessions/{session}/requests", get(sessions::pending), READ_SESSIONS.name()),
        ("POST", "/v1/sessions/{session}/requests", post(sessions::send), WRITE_SESSIONS.name()),
        (
            "POST",
            "/v1/sessions/{session}/acknowledge",
            post(sessions::acknowledge),
            WRITE_SESSIONS.name(),
        ),
        ("POST", "/v1/session-retries", post(sessions::retry), WRITE_SESSIONS.everything().apart()),
        ("POST", "/v1/transactions", post(transactions::execute), MIX),
        ("GET", "/v1/branches", get(branches::list), LOOK),
        ("POST", "/v1/branches", post(branches::fork), CHANGE.recorded("branch.fork")),
        ("GET", "/v1/branches/{*name}", get(branches::info), LOOK),
        (
            "DELETE",
            "/v1/branches/{*name}",
            delete(branches::delete),
            CHANGE.recorded("branch.delete"),
        ),
        ("GET", "/v1/diff", get(branches::diff), LOOK.everything()),
        ("POST", "/v1/merges", post(branches::merge), CHANGE.recorded("branch.merge")),
        ("GET", "/v1/tags", get(tags::list), LOOK),
        ("PUT", "/v1/tags/{*name}", put(tags::put), CHANGE.recorded("tag.set")),
        ("DELETE", "/v1/tags/{*name}", delete(tags::delete), CHANGE.recorded("tag.del")),
        ("GET", "/v1/export/{*name}", get(transfer::export), TAKE.recorded_whole("export")),
        (
            "POST",
            "/v1/import/{*name}",
            post(transfer::import),
            GIVE.recorded_to_the_end("import").apart(),
        ),
        ("POST", "/v1/backup", post(transfer::backup), TAKE.recorded_whole("backup").apart()),
        ("GET", "/v1/feed", get(feed::stream), FEED),
        ("GET", "/v1/feed/page", get(feed::page), FEED),
    ]
}

/// Routes about the server itself.
fn operation() -> Vec<Route> {
    vec![
        ("GET", "/healthz", get(health::alive), Door::OPEN),
        ("GET", "/readyz", get(health::ready), Door::OPEN),
        ("GET", "/metrics", get(metrics::show), SERVER),
        ("GET", "/v1/slowlog", get(slow_log::show), SERVER),
        ("GET", "/openapi.json", get(openapi::document), SERVER),
        ("GET", "/docs", get(docs::page), SERVER),
    ]
}

/// The names of all routes, for the check against the OpenAPI document.
pub fn route_names() -> Vec<RouteName> {
    data()
        .into_iter()
        .chain(operation())
        .map(|(method, path, ..)| (method, path.replace("{*", "{")))
        .collect()
}

/// The router of the whole face.
pub fn router(app: Http) -> Router {
    let pause_limit = app.settings().upload_pause_limit();
    let data = table(&app, data()).layer(RequestBodyTimeoutLayer::new(pause_limit));
    let all = data.merge(table(&app, operation()));
    let all = all
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(app.clone(), count))
        .layer(from_fn(leftover::finish));
    let all = match cross_origin(&app.settings().allowed_origins) {
        Some(cross_origin) => all.layer(cross_origin),
        None => all,
    };
    all.layer(map_response(browser_policy)).with_state(app)
}

/// The CORS layer for pages of the allowed origins. Without allowed origins it is absent, and browsers
/// withhold all responses from pages of other origins.
fn cross_origin(allowed: &[String]) -> Option<CorsLayer> {
    let origins: Vec<HeaderValue> = allowed.iter().filter_map(|it| it.parse().ok()).collect();
    let methods = [Method::GET, Method::PUT, Method::POST, Method::PATCH, Method::DELETE];
    let layer = || {
        CorsLayer::new()
            .allow_origin(AllowOrigin::list(origins.clone()))
            .allow_credentials(true)
            .allow_methods(methods)
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers([header::ETAG])
    };
    (!origins.is_empty()).then(layer)
}

/// Forbids browsers to guess content types. HTML may not load or run anything, and other pages may not frame
/// it.
async fn browser_policy(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    if kind.starts_with(b"text/html")
        && let Ok(policy) = HeaderValue::from_str(docs::content_policy())
    {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// Builds a router in which every handler is behind its access check.
fn table(app: &Http, routes: Vec<Route>) -> Router<Http> {
    let add = |router: Router<Http>, (_, path, handler, door): Route| {
        let door = from_fn_with_state((app.clone(), door), enter);
        router.route(path, handler.route_layer(door))
    };
    routes.into_iter().fold(Router::new(), add)
}

async fn no_route(request: Request) -> Refusal {
    Refusal::no_route(request.uri().path())
}

async fn no_method(request: Request) -> Refusal {
    Refusal::no_method(request.method().as_str(), request.uri().path())
}

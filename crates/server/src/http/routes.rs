//! All routes, in one table: the router is made of it, and the OpenAPI document is checked against it.

use super::metrics::count;
use super::refusal::Refusal;
use super::{Http, branches, cells, docs, feed, health, history, leftover, metrics, openapi, tags};
use super::{slow_log, transactions, transfer};
use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, delete, get, post, put};
use tower_http::timeout::RequestBodyTimeoutLayer;

/// A route: its method and its path, as the OpenAPI document writes it.
pub type RouteName = (&'static str, String);

type Route = (&'static str, &'static str, MethodRouter<Http>);

/// What is about data: one layer can wrap all of it.
fn data() -> Vec<Route> {
    vec![
        ("GET", "/v1/cells", get(cells::list)),
        ("GET", "/v1/cells/{*name}", get(cells::get)),
        ("PUT", "/v1/cells/{*name}", put(cells::put)),
        ("DELETE", "/v1/cells/{*name}", delete(cells::delete)),
        ("POST", "/v1/incr/{*name}", post(cells::incr)),
        ("GET", "/v1/history/{*name}", get(history::history)),
        ("POST", "/v1/transactions", post(transactions::execute)),
        ("GET", "/v1/branches", get(branches::list)),
        ("POST", "/v1/branches", post(branches::fork)),
        ("GET", "/v1/branches/{*name}", get(branches::info)),
        ("DELETE", "/v1/branches/{*name}", delete(branches::delete)),
        ("GET", "/v1/diff", get(branches::diff)),
        ("POST", "/v1/merges", post(branches::merge)),
        ("GET", "/v1/tags", get(tags::list)),
        ("PUT", "/v1/tags/{*name}", put(tags::put)),
        ("DELETE", "/v1/tags/{*name}", delete(tags::delete)),
        ("GET", "/v1/export/{*name}", get(transfer::export)),
        ("POST", "/v1/import/{*name}", post(transfer::import)),
        ("POST", "/v1/backup", post(transfer::backup)),
        ("GET", "/v1/feed", get(feed::stream)),
        ("GET", "/v1/feed/page", get(feed::page)),
    ]
}

/// What is about the server itself.
fn operation() -> Vec<Route> {
    vec![
        ("GET", "/healthz", get(health::alive)),
        ("GET", "/readyz", get(health::ready)),
        ("GET", "/metrics", get(metrics::show)),
        ("GET", "/v1/slowlog", get(slow_log::show)),
        ("GET", "/openapi.json", get(openapi::document)),
        ("GET", "/docs", get(docs::page)),
    ]
}

/// The names of all routes.
pub fn route_names() -> Vec<RouteName> {
    let name = |(method, path, _): Route| (method, path.replace("{*", "{"));
    data().into_iter().chain(operation()).map(name).collect()
}

/// The whole face as a service.
pub fn router(app: Http) -> Router {
    let pause_limit = app.settings().upload_pause_limit;
    let data = table(data()).layer(RequestBodyTimeoutLayer::new(pause_limit));
    let all = data.merge(table(operation()));
    all.fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(from_fn_with_state(app.clone(), count))
        .layer(from_fn(leftover::finish))
        .with_state(app)
}

fn table(routes: Vec<Route>) -> Router<Http> {
    let add = |router: Router<Http>, (_, path, handler): Route| router.route(path, handler);
    routes.into_iter().fold(Router::new(), add)
}

async fn no_route(request: Request) -> Refusal {
    Refusal::no_route(request.uri().path())
}

async fn no_method(request: Request) -> Refusal {
    Refusal::no_method(request.method().as_str(), request.uri().path())
}

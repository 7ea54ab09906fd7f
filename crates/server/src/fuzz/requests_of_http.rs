//! Executes HTTP requests: paths, query arguments, headers and bodies.

use crate::http::{Http, Settings, router};
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use mainstay::Options;
use parking_lot::Mutex;
use std::sync::LazyLock;
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
});

pub(super) type Face = TowerToHyperService<axum::Router>;

/// The number of inputs fed so far, and the router that executes them.
static FACE: LazyLock<Mutex<(usize, Face)>> = LazyLock::new(|| Mutex::new((0, fresh())));

/// Inputs per database. A new database starts threads, which takes longer than executing all of its requests.
const INPUTS_LIMIT: usize = 256;

pub(super) fn fresh() -> Face {
    let db = Options::new().background(false).memory().expect("a database in memory");
    let settings = Settings { feed_wait_limit_ms: 1, ..Settings::default() };
    let app = Http::new(db, settings).expect("threads");
    // While draining, feeds end at once, so no request blocks.
    app.start_draining();
    TowerToHyperService::new(router(app))
}

/// More requests would only take longer.
const REQUESTS_LIMIT: usize = 16;

/// Executes requests separated by a line `---`. Each has a line with method and path, headers, an empty line
/// and the body. No request may be answered with status 500, and every body declared as JSON must be valid
/// JSON.
pub fn http(bytes: &[u8]) {
    let mut face = FACE.lock();
    if face.0.is_multiple_of(INPUTS_LIMIT) {
        face.1 = fresh();
    }
    face.0 += 1;
    answered(&face.1, bytes);
}

/// Executes all requests. Returns the refused ones with their status.
pub(super) fn answered(face: &Face, bytes: &[u8]) -> Vec<String> {
    let requests = split(bytes, b"\n---\n").into_iter().filter_map(request).take(REQUESTS_LIMIT);
    requests.filter_map(|request| RUNTIME.block_on(answer(face, request))).collect()
}

/// Executes one request. Returns it with its status if it was refused.
async fn answer(face: &Face, request: Request<Body>) -> Option<String> {
    let asked = format!("{} {}", request.method(), request.uri());
    let Ok(response) = face.call(request).await;
    let status = response.status();
    assert_ne!(status, 500, "{asked}");
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_json = kind.is_some_and(|kind| kind == "application/json");
    let body = response.into_body().collect().await;
    if let (true, Ok(body)) = (is_json, body) {
        let json = serde_json::from_slice::<serde::de::IgnoredAny>(&body.to_bytes());
        assert!(json.is_ok(), "the answer to {asked} is no JSON: {json:?}");
    }
    (!status.is_success()).then(|| format!("{asked}: {status}"))
}

fn split<'b>(mut bytes: &'b [u8], between: &[u8]) -> Vec<&'b [u8]> {
    let mut parts = Vec::new();
    while let Some(at) = memchr::memmem::find(bytes, between) {
        parts.push(&bytes[..at]);
        bytes = &bytes[at + between.len()..];
    }
    parts.push(bytes);
    parts
}

fn request(bytes: &[u8]) -> Option<Request<Body>> {
    let parts = split(bytes, b"\n\n");
    let head = parts.first()?;
    let body = &bytes[(parts.first()?.len() + 2).min(bytes.len())..];
    let mut lines = head.split(|byte| *byte == b'\n');
    let mut words = lines.next()?.splitn(2, |byte| *byte == b' ');
    let method = Method::from_bytes(words.next()?).ok()?;
    let uri = Uri::try_from(words.next()?).ok()?;
    let mut request =
        Request::builder().method(method).uri(uri).body(Body::from(body.to_vec())).ok()?;
    for line in lines {
        let (name, value) = line.split_at_checked(line.iter().position(|byte| *byte == b':')?)?;
        let value = HeaderValue::from_bytes(value[1..].trim_ascii()).ok()?;
        request.headers_mut().append(HeaderName::from_bytes(name).ok()?, value);
    }
    Some(request)
}

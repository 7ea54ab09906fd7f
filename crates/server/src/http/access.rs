//! Access control: authenticates the user and checks the rights of a route before the body is read.
//!
//! ```text
//!   request --Authorization--> user --door of the route--> handler --waist--> the database
//!                 |401           |403: the right, the name in the path, the prefix in the query
//! ```
//!
//! The route table gives every route its `Door`. Rights that depend on the body are checked when the body has
//! become a transaction. If no users are configured, every caller is admitted. Web pages of other origins are
//! rejected unless a setting lists them.

use super::Http;
use super::answers;
use super::conditions::SESSION;
use super::extract::{Asked, Named};
use super::origin;
use super::refusal::{Answered, Refusal};
use super::shares::{ConnectionShare, as_user};
use super::work::to_the_end;
use crate::security::{Denied, Entry, Outcome, Right, Secret, User, Verdict};
use axum::RequestPartsExt;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The access requirements of a route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Door {
    /// The required right. `None` admits every caller without authentication.
    right: Option<Right>,
    reach: Reach,
    recorded: Option<Recorded>,
    /// If set, the route rejects requests that carry the `Mainstay-Session` header.
    apart: bool,
}

/// The keys that a route reaches besides those of its transaction.
#[derive(Clone, Copy, Debug)]
enum Reach {
    Nothing,
    /// The key named in the path.
    Name,
    /// All keys that begin with the prefix in the query.
    Range,
    Everything,
}

/// The audit log entry of a route.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    name: &'static str,
    /// If set, the outcome is recorded here. Otherwise only a denial is, because transactions record their
    /// own outcome.
    whole: bool,
    /// If set, the request runs to its end even if its client disconnects.
    goes_on: bool,
}

impl Door {
    /// Admits every caller, because load balancers have no password.
    pub const OPEN: Door =
        Door { right: None, reach: Reach::Nothing, recorded: None, apart: false };

    /// Requires this right.
    pub const fn needs(right: Right) -> Door {
        Door { right: Some(right), ..Door::OPEN }
    }

    /// Requires access to the key named in the path.
    pub const fn name(self) -> Door {
        Door { reach: Reach::Name, ..self }
    }

    /// Requires access to all keys with the prefix in the query.
    pub const fn range(self) -> Door {
        Door { reach: Reach::Range, ..self }
    }

    /// Requires access to all keys.
    pub const fn everything(self) -> Door {
        Door { reach: Reach::Everything, ..self }
    }

    /// Rejects requests of a session, because the route is not one transaction on data.
    pub const fn apart(self) -> Door {
        Door { apart: true, ..self }
    }

    /// Records denied callers in the audit log under this name.
    pub const fn recorded(self, name: &'static str) -> Door {
        Door { recorded: Some(Recorded { name, whole: false, goes_on: false }), ..self }
    }

    /// Records each caller under this name, with the outcome. The request runs to its end even if its client
    /// disconnects.
    pub const fn recorded_to_the_end(self, name: &'static str) -> Door {
        Door { recorded: Some(Recorded { name, whole: true, goes_on: true }), ..self }
    }

    /// Records each caller under this name, with the outcome.
    pub const fn recorded_whole(self, name: &'static str) -> Door {
        Door { recorded: Some(Recorded { name, whole: true, goes_on: false }), ..self }
    }
}

/// The client's address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub SocketAddr);

/// The authenticated caller. The middleware adds it to the request; every write needs it.
#[derive(Clone, Debug)]
pub(crate) struct Asking {
    /// The user.
    pub user: Arc<User>,
    /// The client's address, as text.
    pub peer: String,
}

impl FromRequestParts<Http> for Asking {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Http) -> Answered<Asking> {
        parts.extensions.get().cloned().ok_or_else(Refusal::lost)
    }
}

/// Middleware that authenticates the caller, checks the route's requirements and charges the answer to the
/// user's memory account.
pub(crate) async fn enter(
    State((app, door)): State<(Http, Door)>,
    request: Request,
    next: Next,
) -> Answered<Response> {
    let Some(right) = door.right else { return Ok(next.run(request).await) };
    let (mut parts, body) = request.into_parts();
    let peer = parts.extensions.get().map_or_else(String::new, |Peer(peer)| peer.to_string());
    let user = authenticate(&app, &parts.headers, &peer).await?;
    if let Some(connection) = parts.extensions.get::<ConnectionShare>() {
        connection.belongs_to(&user, app.settings().connections)?;
    }
    let asking = Asking { user, peer };
    if let Err(refusal) = allow(&app, &mut parts, door, right, &asking.user).await {
        record(&app, &mut parts, door, &asking, Outcome::Denied).await;
        return Err(refusal);
    }
    if door.apart && parts.headers.contains_key(SESSION) {
        return Err(no_request());
    }
    parts.extensions.insert(asking.clone());
    let mut recording = match door.recorded.filter(|recorded| recorded.whole) {
        Some(Recorded { name, .. }) => {
            let entry = entry(&app, &mut parts.clone(), name, &asking).await;
            Some(Recording { app: app.clone(), entry, outcome: Outcome::Failed })
        }
        None => None,
    };
    let account = answers::account(&app).of_user(Some(asking.user.name()));
    let method = parts.method.clone();
    let user = asking.user.clone();
    let answering = as_user(user, next.run(Request::from_parts(parts, body)));
    let answer = async move {
        let response = answers::on(account.clone(), answering).await;
        if let Some(recording) = recording.as_mut().filter(|_| response.status().is_success()) {
            recording.outcome = Outcome::Done;
        }
        Ok(answers::held(&account, &method, response))
    };
    // These routes finish their writes after a disconnect, so that the audit log has the real outcome.
    let goes_on = door.recorded.is_some_and(|recorded| recorded.goes_on);
    if goes_on { to_the_end(answer).await } else { answer.await }
}

/// Records the outcome of a request when it is dropped: failed, unless the outcome was changed before.
struct Recording {
    app: Http,
    entry: Entry,
    outcome: Outcome,
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.app.security().audit().record(&self.entry, self.outcome);
    }
}

/// The prefix in a query. The handler parses the other arguments.
#[derive(Default, Deserialize)]
struct Prefixed {
    #[serde(default)]
    prefix: String,
}

async fn allow(
    app: &Http,
    parts: &mut Parts,
    door: Door,
    right: Right,
    user: &User,
) -> Answered<()> {
    if user.is_unlimited() {
        return Ok(());
    }
    user.may(right)?;
    match door.reach {
        Reach::Nothing => Ok(()),
        Reach::Name => {
            let Named(name) = parts.extract_with_state(app).await?;
            Ok(user.may_touch(name.as_bytes())?)
        }
        Reach::Range => {
            let Asked(Prefixed { prefix }) = parts.extract_with_state(app).await?;
            Ok(user.may_list(prefix.as_bytes())?)
        }
        Reach::Everything => Ok(user.may_touch_everything()?),
    }
}

async fn record(app: &Http, parts: &mut Parts, door: Door, asking: &Asking, outcome: Outcome) {
    let Some(Recorded { name, .. }) = door.recorded else { return };
    let entry = entry(app, parts, name, asking).await;
    app.security().audit().record(&entry, outcome);
}

async fn entry(app: &Http, parts: &mut Parts, name: &'static str, asking: &Asking) -> Entry {
    let about: Answered<Named> = parts.extract_with_state(app).await;
    let about = about.ok().map(|Named(name)| name);
    Entry::new(Some(asking.user.name()), &asking.peer, name, about)
}

/// Returns the user that the `Authorization` header names, after verifying the password.
async fn authenticate(app: &Http, headers: &HeaderMap, peer: &str) -> Answered<Arc<User>> {
    let security = app.security();
    let everybody = security.stranger();
    origin::check(headers, everybody.as_deref(), &app.settings().allowed_origins)?;
    if let Some(everybody) = everybody {
        return Ok(everybody);
    }
    let (name, password) = credentials(headers).ok_or_else(Refusal::unauthenticated)?;
    if let Some(user) = security.recall(&name, &password) {
        return Ok(user);
    }
    let (sender, receiver) = oneshot::channel();
    security.verify(name, password, peer, move |verdict| drop(sender.send(verdict)));
    match receiver.await.map_err(|_| Refusal::lost())? {
        Verdict::Known(user) => Ok(user),
        Verdict::Wrong => Err(Refusal::unauthenticated()),
        Verdict::Wait(wait_ms) => Err(Refusal::too_many_attempts(wait_ms)),
        Verdict::Busy => Err(busy()),
    }
}

/// Rejects a session request on such a route: exactly-once execution is not possible there, and the client
/// would rely on it.
fn no_request() -> Refusal {
    Refusal::invalid(
        "this is not one transaction on data, so it is no request of a session: send it without Mainstay-Session",
    )
}

fn busy() -> Refusal {
    let message = "too many are authenticating at the moment: try again later, or raise security.attempts_waiting";
    Refusal::unavailable("Busy", message)
}

/// Parses the only `Authorization: Basic` header.
fn credentials(headers: &HeaderMap) -> Option<(String, Secret)> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(only), None) = (all.next(), all.next()) else { return None };
    let (scheme, encoded) = only.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("Basic") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let name = String::from_utf8(decoded[..colon].to_vec()).ok()?;
    Some((name, Secret::new(&decoded[colon + 1..])))
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Refusal {
        Refusal::forbidden(format!("the user {} may not do this: {denied}", denied.user()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Option<(String, Vec<u8>)> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        credentials(&headers).map(|(name, password)| (name, password.expose().to_vec()))
    }

    #[test]
    fn a_name_ends_at_the_first_colon_and_a_password_holds_anything() {
        let encoded = format!("Basic {}", STANDARD.encode(b"app:a:b\xff "));
        assert_eq!(read(&[&encoded]), Some(("app".into(), b"a:b\xff ".to_vec())));
        assert_eq!(read(&["bAsIc YTo="]), Some(("a".into(), Vec::new())));
        for wrong in ["", "Basic", "Basic ", "Basic YQ==", "Bearer YTpi", "Basic %%%", "YTpi"] {
            assert_eq!(read(&[wrong]), None, "{wrong}");
        }
        assert_eq!(read(&[&encoded, &encoded]), None, "which one would be meant?");
    }
}

//! Extractors: names in paths, query arguments, size-limited bodies.

use super::Http;
use super::forms::key_of;
use super::refusal::{Answered, Refusal};
use super::room::Room;
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, Query, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use mainstay::{At, Cells, Code, Database, Error, Keyed, MAIN, Name, Outbox, Records, Runs};
use mainstay_jobs::JobName;
use serde::de::DeserializeOwned;
use std::error::Error as StdError;
use tower_http::timeout::TimeoutError;

/// Bodies longer than this are parsed on a blocking thread, so that they do not hold up a serving thread.
const LONG_BYTES: usize = 256 << 10;

/// The first name in a path. It may contain slashes and percent-encoded bytes.
pub(crate) struct Named(pub String);

impl FromRequestParts<Http> for Named {
    type Rejection = Refusal;

    /// With several path parameters, takes the first, because access rights apply to it.
    async fn from_request_parts(parts: &mut Parts, app: &Http) -> Answered<Named> {
        let named = RawPathParams::from_request_parts(parts, app).await.map_err(|error| {
            let message = format!("the name in the path is not UTF-8: {}", error.body_text());
            Refusal::from(Error::new(Code::InvalidName, message))
        })?;
        let first = named.iter().next().map(|(_, name)| Named(name.to_owned()));
        first.ok_or_else(Refusal::lost)
    }
}

/// The space and the key in a path. A key that is not text is written as in JSON.
pub(crate) struct NamedState(pub Name, pub Vec<u8>);

impl FromRequestParts<Http> for NamedState {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Http) -> Answered<NamedState> {
        let named = Path::<(String, String)>::from_request_parts(parts, app).await;
        let Path((space, key)) = named.map_err(|error| {
            let message = format!("the name in the path is not UTF-8: {}", error.body_text());
            Refusal::from(Error::new(Code::InvalidName, message))
        })?;
        Ok(NamedState(Name::new(&space)?, key_of(&key)?))
    }
}

/// The type and the id of a job in a path.
pub(crate) struct NamedJob(pub JobName);

impl FromRequestParts<Http> for NamedJob {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Http) -> Answered<NamedJob> {
        let named = Path::<(String, String)>::from_request_parts(parts, app).await;
        let Path((task_type, id)) = named.map_err(|error| {
            let message = format!("the name in the path is not UTF-8: {}", error.body_text());
            Refusal::from(Error::new(Code::InvalidName, message))
        })?;
        Ok(NamedJob(JobName::new(&task_type, &id)?))
    }
}

/// The type of jobs at the end of a path.
pub(crate) struct OfType(pub String);

impl FromRequestParts<Http> for OfType {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Http) -> Answered<OfType> {
        let Named(task_type) = Named::from_request_parts(parts, app).await?;
        // An invalid type cannot have jobs, so it is refused here.
        JobName::new(&task_type, "any")?;
        Ok(OfType(task_type))
    }
}

/// Query arguments; their type refuses unknown ones.
pub(crate) struct Asked<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Http> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &Http) -> Answered<Asked<T>> {
        let asked = Query::<T>::try_from_uri(&parts.uri);
        asked.map(|Query(asked)| Asked(asked)).map_err(|error| {
            let why = error.source().map_or_else(|| error.body_text(), ToString::to_string);
            Refusal::invalid(format!("the arguments in the address are wrong: {why}"))
        })
    }
}

/// A body as text, with its reservation in the memory for bodies.
pub(crate) struct Text {
    text: String,
    room: Room,
}

impl Text {
    /// Reads a body of at most `limit_bytes`.
    pub async fn read(
        app: &Http,
        headers: &HeaderMap,
        body: Body,
        limit_bytes: usize,
    ) -> Answered<Text> {
        let (whole, room) = whole(app, headers, body, limit_bytes).await?;
        let text = String::from_utf8(whole)
            .map_err(|_| Refusal::invalid("the body is not UTF-8: send JSON"))?;
        Ok(Text { text, room })
    }

    /// Parses a body; a long one on a blocking thread. The caller keeps the returned `Room` for as long as
    /// the parsed value lives.
    pub async fn parse<T: Send + 'static>(
        self,
        app: &Http,
        read: impl FnOnce(&str) -> Answered<T> + Send + 'static,
    ) -> Answered<(T, Room)> {
        if self.text.len() > LONG_BYTES {
            app.slowly(move || Ok((read(&self.text)?, self.room))).await
        } else {
            Ok((read(&self.text)?, self.room))
        }
    }

    /// Deserializes the body from JSON. The type refuses unknown fields.
    pub async fn form<T: DeserializeOwned + Send + 'static>(self, app: &Http) -> Answered<T> {
        Ok(self.parse(app, form).await?.0)
    }

    /// Like `form`, but an empty body gives the default.
    pub async fn form_or_default<T>(self, app: &Http) -> Answered<T>
    where
        T: DeserializeOwned + Default + Send + 'static,
    {
        if self.text.is_empty() { Ok(T::default()) } else { self.form(app).await }
    }
}

/// Reads a body of at most `limit_bytes`, together with its reservation in the memory for bodies.
pub(crate) async fn whole(
    app: &Http,
    headers: &HeaderMap,
    body: Body,
    limit_bytes: usize,
) -> Answered<(Vec<u8>, Room)> {
    let length = length_of(headers);
    if length.is_some_and(|length| length > limit_bytes) {
        return Err(Refusal::too_large(limit_bytes as u64));
    }
    let mut room = Room::of(app, length.unwrap_or_default()).await?;
    let whole = collect(app, body, length, limit_bytes, &mut room);
    let whole = tokio::time::timeout(app.settings().upload_limit(), whole).await;
    Ok((whole.map_err(|_| Refusal::too_slow())??, room))
}

/// Reads and deserializes a body of at most the size limit of one value.
pub(crate) async fn small_form<T: DeserializeOwned + Send + 'static>(
    app: &Http,
    headers: &HeaderMap,
    body: Body,
) -> Answered<T> {
    Text::read(app, headers, body, app.settings().value_limit_bytes).await?.form(app).await
}

/// Collects the bytes of a body. Without a `Content-Length`, memory is reserved as bytes arrive, so a client
/// that announces nothing and sends little holds little.
async fn collect(
    app: &Http,
    body: Body,
    length: Option<usize>,
    limit_bytes: usize,
    room: &mut Room,
) -> Answered<Vec<u8>> {
    let mut body = Limited::new(body, limit_bytes);
    let mut bytes = Vec::with_capacity(length.unwrap_or_default());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| cut(&*error, limit_bytes as u64))?;
        let Ok(piece) = frame.into_data() else { continue };
        if length.is_none() {
            room.reach(app, bytes.len() + piece.len()).await?;
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// Deserializes JSON text. The type refuses unknown fields.
pub(crate) fn form<T: DeserializeOwned>(text: &str) -> Answered<T> {
    serde_json::from_str(text)
        .map_err(|error| Refusal::invalid(format!("the body is not what is wanted: {error}")))
}

pub(crate) fn length_of(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Error for a body that ended early: too large, too slow, or disconnected.
pub(crate) fn cut(error: &(dyn StdError + 'static), limit_bytes: u64) -> Refusal {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return Refusal::too_large(limit_bytes);
        }
        if error.is::<TimeoutError>() {
            return Refusal::too_slow();
        }
        cause = error.source();
    }
    Refusal::invalid("the body ended before its end: send it again")
}

/// The point in time that `rev` or `at` names.
pub(crate) fn point(rev: Option<u64>, at: Option<u64>) -> Answered<At> {
    match (rev, at) {
        (None, None) => Ok(At::Latest),
        (Some(revision), None) => Ok(At::Revision(revision)),
        (None, Some(stamp)) => Ok(At::Stamp(stamp)),
        _ => Err(Refusal::invalid("give rev (a revision) or at (a stamp), not both")),
    }
}

/// The cells of a branch, `main` by default.
pub(crate) fn cells_of(db: &Database, branch: Option<&str>) -> Answered<Cells> {
    match branch {
        None | Some(MAIN) => Ok(db.cells()),
        Some(branch) => Ok(db.branch(branch)?.cells()),
    }
}

/// The records of a branch, `main` by default.
pub(crate) fn records_of(db: &Database, branch: Option<&str>) -> Answered<Records> {
    match branch {
        None | Some(MAIN) => Ok(db.records()),
        Some(branch) => Ok(db.branch(branch)?.records()),
    }
}

/// The runs of a branch, `main` by default.
pub(crate) fn runs_of(db: &Database, branch: Option<&str>) -> Answered<Runs> {
    match branch {
        None | Some(MAIN) => Ok(db.runs()),
        Some(branch) => Ok(db.branch(branch)?.runs()),
    }
}

/// A space of a branch, `main` by default.
pub(crate) fn keyed_of(db: &Database, branch: Option<&str>, space: &Name) -> Answered<Keyed> {
    match branch {
        None | Some(MAIN) => Ok(db.keyed(space.as_str())?),
        Some(branch) => Ok(db.branch(branch)?.keyed(space.as_str())?),
    }
}

/// The outbox of a branch, `main` by default.
pub(crate) fn outbox_of(db: &Database, branch: Option<&str>) -> Answered<Outbox> {
    match branch {
        None | Some(MAIN) => Ok(db.outbox()),
        Some(branch) => Ok(db.branch(branch)?.outbox()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Settings;
    use mainstay::Options;
    use std::thread;

    /// Returns whether a body of this length is parsed on another thread than the serving one.
    fn reads_elsewhere(bytes: usize) -> bool {
        let app = Http::new(Options::new().memory().unwrap(), Settings::default()).unwrap();
        let body = Text { text: "x".repeat(bytes), room: Room::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let read = body.parse(&app, |_| Ok(thread::current().id()));
        let (thread, _) = runtime.block_on(read).ok().unwrap();
        thread != thread::current().id()
    }

    #[test]
    fn a_long_body_holds_no_serving_thread_up() {
        assert!(reads_elsewhere(LONG_BYTES + 1));
        assert!(!reads_elsewhere(LONG_BYTES));
    }
}

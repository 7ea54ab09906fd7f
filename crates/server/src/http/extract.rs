//! What requests carry: names in paths, arguments in queries, bodies with a limit.

use super::Http;
use super::refusal::{Answered, Refusal};
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use mainstay::{At, Cells, Code, Database, Error, MAIN};
use serde::de::DeserializeOwned;
use std::error::Error as StdError;
use tokio::sync::OwnedSemaphorePermit;
use tower_http::timeout::TimeoutError;

/// A body up to this size costs nothing of the memory that all bodies share.
const SMALL_BYTES: usize = 64 << 10;

/// The name at the end of a path: it may hold slashes and anything percent-encoded.
pub(crate) struct Named(pub String);

impl FromRequestParts<Http> for Named {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Http) -> Answered<Named> {
        let named = Path::<String>::from_request_parts(parts, app).await;
        named.map(|Path(name)| Named(name)).map_err(|error| {
            let message = format!("the name in the path is not UTF-8: {}", error.body_text());
            Error::new(Code::InvalidName, message).into()
        })
    }
}

/// The arguments behind the question mark; unknown ones are refused by their type.
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

/// A body as text, holding its part of the memory for bodies.
pub(crate) struct Text {
    pub text: String,
    _room: Option<OwnedSemaphorePermit>,
}

impl Text {
    /// Reads a body of at most so many bytes.
    pub async fn read(
        app: &Http,
        headers: &HeaderMap,
        body: Body,
        limit_bytes: usize,
    ) -> Answered<Text> {
        let length = length_of(headers).unwrap_or(limit_bytes);
        if length > limit_bytes {
            return Err(Refusal::too_large(limit_bytes as u64));
        }
        let room = app.room_for(length).await?;
        let whole = Limited::new(body, limit_bytes).collect();
        let whole = tokio::time::timeout(app.settings().upload_limit(), whole).await;
        let whole = whole.map_err(|_| Refusal::too_slow())?;
        let whole = whole.map_err(|error| cut(&*error, limit_bytes as u64))?;
        let text = String::from_utf8(whole.to_bytes().into())
            .map_err(|_| Refusal::invalid("the body is not UTF-8: send JSON"))?;
        Ok(Text { text, _room: room })
    }

    /// The body as a form of ours; unknown fields are refused by its type.
    pub fn form<T: DeserializeOwned>(&self) -> Answered<T> {
        form(&self.text)
    }
}

/// Text as a form of ours; unknown fields are refused by its type.
pub(crate) fn form<T: DeserializeOwned>(text: &str) -> Answered<T> {
    serde_json::from_str(text)
        .map_err(|error| Refusal::invalid(format!("the body is not what is wanted: {error}")))
}

impl Http {
    /// Waits for room in the memory that all bodies share.
    async fn room_for(&self, bytes: usize) -> Answered<Option<OwnedSemaphorePermit>> {
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        let kilobytes = bytes.min(self.settings().bodies_limit_bytes) / 1024;
        let wanted = u32::try_from(kilobytes).unwrap_or(u32::MAX);
        let room = self.bodies().acquire_many_owned(wanted);
        match tokio::time::timeout(self.settings().upload_limit(), room).await {
            Ok(Ok(room)) => Ok(Some(room)),
            _ => Err(Refusal::unavailable("Busy", "too many large requests at once: try later")),
        }
    }
}

pub(crate) fn length_of(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Why a body ended before its end.
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

/// The point in time that two arguments name together.
pub(crate) fn point(rev: Option<u64>, at: Option<u64>) -> Answered<At> {
    match (rev, at) {
        (None, None) => Ok(At::Latest),
        (Some(revision), None) => Ok(At::Revision(revision)),
        (None, Some(stamp)) => Ok(At::Stamp(stamp)),
        _ => Err(Refusal::invalid("give rev (a revision) or at (a stamp), not both")),
    }
}

/// The cells of a branch; of `main` where none is named.
pub(crate) fn cells_of(db: &Database, branch: Option<&str>) -> Answered<Cells> {
    match branch {
        None | Some(MAIN) => Ok(db.cells()),
        Some(branch) => Ok(db.branch(branch)?.cells()),
    }
}

//! JSON responses that are encoded by the thread that builds them.

use axum::body::Bytes;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::marker::PhantomData;

/// A response body, encoded when it is created. With `axum::Json`, a large body would be encoded by a thread
/// that serves all connections.
pub(crate) struct Json<T> {
    text: Result<Vec<u8>, String>,
    form: PhantomData<fn() -> T>,
}

impl<T: Serialize> Json<T> {
    pub fn of(form: T) -> Json<T> {
        let text = serde_json::to_vec(&form).map_err(|error| error.to_string());
        Json { text, form: PhantomData }
    }
}

impl<T> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match self.text {
            Ok(text) => {
                let kind = HeaderValue::from_static("application/json");
                ([(header::CONTENT_TYPE, kind)], Bytes::from(text)).into_response()
            }
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error).into_response(),
        }
    }
}

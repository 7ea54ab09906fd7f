//! Answers as JSON text.

use axum::body::Bytes;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::marker::PhantomData;

/// A form as JSON text. It is encoded when it is made, by the thread that makes it: a large one never takes the time of the
/// threads that serve all connections, as it would with `axum::Json`.
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

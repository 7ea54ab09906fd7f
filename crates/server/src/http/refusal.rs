//! Error responses: every failure becomes a status and one form of JSON body.
//!
//! ```text
//!   mainstay::Error { code, message, position, keys }  --+
//!   errors of HTTP alone (no such route, 412, 413)     --+--> status + {"error": {code, kind, message, ...}}
//! ```

use super::json::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use mainstay::{Code, Error, ErrorKind};
use serde::Serialize;
use utoipa::ToSchema;

/// The result type of every handler.
pub(crate) type Answered<T> = Result<T, Refusal>;

/// An error response.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    body: Box<Problem>,
    /// The current counter of the cell or record, if a condition on it failed.
    counter: Option<u64>,
    /// The `Retry-After` header, in seconds.
    retry_after: Option<u64>,
    /// If set, the connection is closed after the response.
    closes: bool,
}

/// What went wrong.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    error: ProblemBody,
}

/// What went wrong, and what to do about it.
#[derive(Debug, Serialize, ToSchema)]
struct ProblemBody {
    /// Exactly what went wrong; stable.
    #[schema(example = "InvalidName")]
    code: &'static str,
    /// What can be done about it; few and stable.
    #[schema(example = "Invalid")]
    kind: String,
    /// A sentence for people.
    message: String,
    /// The command of the transaction, counted from zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<usize>,
    /// The keys concerned, as of a merge.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keys: Vec<String>,
}

impl Refusal {
    fn own(
        status: StatusCode,
        code: &'static str,
        kind: impl std::fmt::Debug,
        message: impl Into<String>,
    ) -> Refusal {
        let kind = format!("{kind:?}");
        let message = message.into();
        let error = ProblemBody { code, kind, message, position: None, keys: Vec::new() };
        // Most 503 conditions are short.
        let retry_after = (status == StatusCode::SERVICE_UNAVAILABLE).then_some(1);
        Refusal {
            status,
            body: Box::new(Problem { error }),
            counter: None,
            retry_after,
            closes: false,
        }
    }

    /// 400 for an invalid argument.
    pub fn invalid(message: impl Into<String>) -> Refusal {
        Error::new(Code::InvalidArgument, message).into()
    }

    /// 404 for a missing entity.
    pub fn not_found(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal::own(StatusCode::NOT_FOUND, code, ErrorKind::NotFound, message)
    }

    /// 404 for an unknown path.
    pub fn no_route(path: &str) -> Refusal {
        let message = format!("there is nothing at {path}: /docs lists what there is");
        Refusal::not_found("RouteNotFound", message)
    }

    /// 405 for a known path with another method.
    pub fn no_method(method: &str, path: &str) -> Refusal {
        let message = format!("{path} does not know {method}: the header Allow says what it knows");
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Refusal::own(status, "MethodNotAllowed", ErrorKind::Unsupported, message)
    }

    /// 412 for a failed condition; `counter` is the current one of the cell or record.
    pub fn condition(what: &str, name: &str, counter: Option<u64>) -> Refusal {
        let now = counter.map_or("is absent".into(), |counter| format!("has counter {counter}"));
        let message = format!("the {what} {name:?} {now}: nothing was changed; read it again");
        let status = StatusCode::PRECONDITION_FAILED;
        let refusal = Refusal::own(status, "PreconditionFailed", ErrorKind::Conflict, message);
        Refusal { counter, ..refusal }
    }

    /// 409 for a lock that another owner holds.
    pub fn held(name: &str) -> Refusal {
        let message = format!("another owner has the lock {name:?}: try again later");
        Refusal::own(StatusCode::CONFLICT, "LockHeld", ErrorKind::Conflict, message)
    }

    /// 413 for a body above the size limit.
    pub fn too_large(limit_bytes: u64) -> Refusal {
        let message = format!(
            "the body is too large: {limit_bytes} bytes are the most here; http.value_limit_bytes, \
             http.transaction_limit_bytes and http.import_limit_bytes are the limits"
        );
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        Refusal::own(status, "BodyTooLarge", ErrorKind::TooLarge, message)
    }

    /// 408 for a body that did not arrive in time.
    pub fn too_slow() -> Refusal {
        let message = "the body did not arrive in time: send it without long pauses; http.upload_limit_ms and \
                       http.upload_pause_limit_ms are the limits";
        let status = StatusCode::REQUEST_TIMEOUT;
        Refusal::own(status, "BodyTimedOut", ErrorKind::Unavailable, message)
    }

    /// 408 for a file that did not arrive in time.
    pub fn too_slow_file() -> Refusal {
        let message = "the file did not arrive in time: http.import_limit_ms is the limit";
        let status = StatusCode::REQUEST_TIMEOUT;
        Refusal::own(status, "BodyTimedOut", ErrorKind::Unavailable, message)
    }

    /// 401 for missing or wrong credentials.
    pub fn unauthenticated() -> Refusal {
        let message = "say who you are by Basic authentication, with the name and the password of a \
                       user: curl --user NAME asks for the password";
        Error::new(Code::Unauthenticated, message).into()
    }

    /// 429 after too many wrong passwords. The next password is not verified before `wait_ms` have passed.
    pub fn too_many_attempts(wait_ms: u64) -> Refusal {
        let message = format!(
            "too many wrong passwords from this address: try again in {wait_ms} ms; \
             security.failures_per_user_and_address and security.failures_per_address are the limits"
        );
        let status = StatusCode::TOO_MANY_REQUESTS;
        let refusal = Refusal::own(status, "TooManyAttempts", ErrorKind::Unavailable, message);
        Refusal { retry_after: Some(wait_ms.div_ceil(1000)), ..refusal }
    }

    /// 403 for an authenticated user without the right.
    pub fn forbidden(message: impl Into<String>) -> Refusal {
        Error::new(Code::Forbidden, message).into()
    }

    /// 503 for a temporary condition.
    pub fn unavailable(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal::own(StatusCode::SERVICE_UNAVAILABLE, code, ErrorKind::Unavailable, message)
    }

    /// Closes the connection after this response.
    pub fn closing(self) -> Refusal {
        Refusal { closes: true, ..self }
    }

    /// 503 for a database that refuses writes.
    pub fn read_only(message: impl Into<String>) -> Refusal {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Refusal::own(status, "ReadOnly", ErrorKind::ReadOnly, message)
    }

    /// 500 for a panic or a lost thread: the outcome of the request is unknown.
    pub fn lost() -> Refusal {
        let message = "the server lost this request: ask again with the same Idempotency-Key";
        Error::new(Code::UnknownOutcome, message).into()
    }

    /// Error for an answer of an unexpected type. If the receipt is a repeated one, its request number was
    /// used before by another request of the session. A retry would not help then.
    pub fn foreign(repeated: bool) -> Refusal {
        if !repeated {
            return Refusal::lost();
        }
        let message = "the request of this number in its session was another one, and this one was not executed: \
                       send it with a number of its own";
        Error::new(Code::RequestReused, message).into()
    }

    /// The body as JSON text, for senders that do not use the router.
    pub fn text(&self) -> String {
        serde_json::to_string(&self.body).unwrap_or_default()
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let status = status_of(error.code());
        let mut refusal = Refusal::own(status, error.code().name(), error.kind(), error.message());
        refusal.body.error.position = error.position();
        refusal.body.error.keys = error.keys().to_vec();
        refusal
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json::of(self.body)).into_response();
        let headers = response.headers_mut();
        if let Some(tag) = self.counter.and_then(|counter| format!("\"{counter}\"").parse().ok()) {
            headers.insert(header::ETAG, tag);
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let basic =
                header::HeaderValue::from_static("Basic realm=\"mainstay\", charset=\"UTF-8\"");
            headers.insert(header::WWW_AUTHENTICATE, basic);
            // A client that guesses passwords has to reconnect for each attempt.
            headers.insert(header::CONNECTION, header::HeaderValue::from_static("close"));
        }
        if self.closes {
            headers.insert(header::CONNECTION, header::HeaderValue::from_static("close"));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

fn status_of(code: Code) -> StatusCode {
    match code {
        Code::RequestReused => StatusCode::UNPROCESSABLE_ENTITY,
        Code::BranchInUse => StatusCode::CONFLICT,
        Code::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
        code => status_of_kind(code.kind()),
    }
}

fn status_of_kind(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorKind::Forbidden => StatusCode::FORBIDDEN,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Conflict
        | ErrorKind::Fenced
        | ErrorKind::Exists
        | ErrorKind::WrongType
        | ErrorKind::TransactionActive
        | ErrorKind::NoTransaction => StatusCode::CONFLICT,
        ErrorKind::HistoryTrimmed | ErrorKind::SessionExpired | ErrorKind::ResponseEvicted => {
            StatusCode::GONE
        }
        ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
        ErrorKind::ReadOnly | ErrorKind::Unavailable | ErrorKind::Closed => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        ErrorKind::UnknownOutcome | ErrorKind::Corrupt => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

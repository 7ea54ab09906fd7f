//! Leftovers: the rest of a body that a refusal did not wait for.
//!
//! ```text
//!   request --body, wrapped--> handler --refused before the end--> rest comes back here --> read away
//!                                                                                       --> response
//! ```
//!
//! A connection that is closed while the client still sends is reset, and the reset can take the
//! answer away before the client has read it. So what is small is read to its end first.

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// How much is read away.
const LEFTOVER_LIMIT_BYTES: usize = 256 << 10;
/// How long that may take.
const LEFTOVER_LIMIT: Duration = Duration::from_millis(500);

type Slot = Arc<Mutex<Option<Body>>>;

/// A body that goes back to its slot when it is dropped before its end.
struct Lent {
    body: Body,
    slot: Slot,
}

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if !self.body.is_end_stream() {
            *self.slot.lock() = Some(std::mem::take(&mut self.body));
        }
    }
}

/// Reads away what a handler left of its request. Whoever waits to be told to go on has sent nothing.
pub(crate) async fn finish(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() || request.headers().contains_key(header::EXPECT) {
        return next.run(request).await;
    }
    let slot = Slot::default();
    let lent = |body| Body::new(Lent { body, slot: slot.clone() });
    let response = next.run(request.map(lent)).await;
    let left = slot.lock().take();
    if let Some(body) = left {
        // Whoever sends more, or too slowly, is closed in the middle of it.
        let _ = tokio::time::timeout(LEFTOVER_LIMIT, read_away(body)).await;
    }
    response
}

async fn read_away(mut body: Body) {
    let mut read_bytes = 0;
    while let Some(Ok(frame)) = body.frame().await {
        read_bytes += frame.data_ref().map_or(0, Bytes::len);
        if read_bytes > LEFTOVER_LIMIT_BYTES {
            return;
        }
    }
}

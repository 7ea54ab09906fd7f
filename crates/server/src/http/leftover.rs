//! Drains the unread rest of a request body after an early refusal.
//!
//! ```text
//!   request --body, wrapped--> handler --refused before the end--> rest comes back here --> drained
//!                                                                                      --> response
//! ```
//!
//! Closing a connection while the client still sends causes a TCP reset, and the reset can discard the
//! response before the client reads it. So a small rest is read to its end first.

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

/// The most bytes that are drained.
const LEFTOVER_LIMIT_BYTES: usize = 256 << 10;
/// The longest time that draining may take.
const LEFTOVER_LIMIT: Duration = Duration::from_millis(500);

type Slot = Arc<Mutex<Option<Body>>>;

/// A body that returns to its slot if it is dropped before its end.
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

/// Drains the part of the body that the handler did not read. A client that sent `Expect: 100-continue` has
/// not sent the body, so nothing is drained.
pub(crate) async fn finish(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() || request.headers().contains_key(header::EXPECT) {
        return next.run(request).await;
    }
    let slot = Slot::default();
    let response = next.run(request.map(|body| Body::new(Lent { body, slot: slot.clone() }))).await;
    let left = slot.lock().take();
    if let Some(body) = left {
        // A client that sends more, or too slowly, is disconnected while it sends.
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

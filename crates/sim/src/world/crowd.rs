//! Combinators to run several futures in one task.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// One of several concurrent futures.
pub type Part<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Completes when all futures have completed.
pub async fn all(parts: Vec<Part<'_>>) {
    let mut parts = parts;
    poll_fn(|context| {
        parts.retain_mut(|part| part.as_mut().poll(context).is_pending());
        if parts.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Completes when one of two futures has. Returns whether it was the first.
pub async fn either(one: Part<'_>, other: Part<'_>) -> bool {
    let mut one = one;
    let mut other = other;
    poll_fn(|context| {
        if one.as_mut().poll(context).is_ready() {
            return Poll::Ready(true);
        }
        other.as_mut().poll(context).map(|()| false)
    })
    .await
}

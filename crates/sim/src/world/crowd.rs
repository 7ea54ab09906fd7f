//! Several futures at once, in one task.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Something that is done beside others.
pub type Part<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Is over when all of them are.
pub async fn all(parts: Vec<Part<'_>>) {
    let mut parts = parts;
    poll_fn(|context| {
        parts.retain_mut(|part| part.as_mut().poll(context).is_pending());
        if parts.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Is over when one of both is; says whether it is the first.
pub async fn either(one: Part<'_>, other: Part<'_>) -> bool {
    let (mut one, mut other) = (one, other);
    poll_fn(|context| {
        if one.as_mut().poll(context).is_ready() {
            return Poll::Ready(true);
        }
        other.as_mut().poll(context).map(|()| false)
    })
    .await
}

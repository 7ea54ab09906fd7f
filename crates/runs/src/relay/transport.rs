//! The `Transport` trait: delivers messages to their destination.

use mainstay::{Answering, Message};

/// Delivers messages. It is shared as `Arc<dyn Transport>` by any number of relays.
///
/// A message may be delivered more than once, so receivers deduplicate by its id. A failed delivery is
/// retried later. A delivery that exceeds the lease is cancelled by dropping its future.
///
/// ```
/// use mainstay::{Answering, Code, Error, Message};
/// use mainstay_runs::relay::Transport;
/// struct Shout;
/// impl Transport for Shout {
///     fn name(&self) -> &str {
///         "shout"
///     }
///     fn deliver<'a>(&'a self, message: &'a Message) -> Answering<'a, ()> {
///         Box::pin(async move {
///             let text = std::str::from_utf8(&message.payload);
///             let text = text.map_err(|_| Error::new(Code::InvalidValue, "this is no text"))?;
///             println!("{}: {}", message.subject, text.to_uppercase());
///             Ok(())
///         })
///     }
/// }
/// ```
pub trait Transport: Send + Sync {
    /// The transport's name in error messages.
    fn name(&self) -> &str;

    /// Delivers a message.
    fn deliver<'a>(&'a self, message: &'a Message) -> Answering<'a, ()>;

    /// Makes the delivered messages durable. It is called once per batch before the messages are
    /// acknowledged. If it fails, all of them are delivered again.
    fn flush(&self) -> Answering<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

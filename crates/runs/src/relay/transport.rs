//! Transports: what carries messages away.

use mainstay::{Answering, Message};

/// Carries messages away. It is used as `Arc<dyn Transport>`, by any number of relays at once.
///
/// A message may be delivered more than once: whoever receives it tells by its id. What fails is tried again later; a
/// delivery that is not done within the lease is given up, and its future dropped.
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
    /// What it is called where failures are told.
    fn name(&self) -> &str;

    /// Delivers a message.
    fn deliver<'a>(&'a self, message: &'a Message) -> Answering<'a, ()>;

    /// Makes what was delivered stay. It is called before messages are acknowledged, once for a batch; where it
    /// fails, all of them are delivered again.
    fn settle(&self) -> Answering<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

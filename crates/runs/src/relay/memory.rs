//! In-memory transport, for tests and for receivers in this process.

use super::Transport;
use mainstay::{Answering, Code, Error, Message, Result};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// The timeout of a wait for messages.
const PATIENCE: Duration = Duration::from_secs(60);

type Refuses = Box<dyn FnMut(&Message) -> bool + Send>;

/// Stores the delivered messages in order, and fails on request.
///
/// ```
/// use mainstay::{Database, remote};
/// use mainstay_runs::relay::{MemoryTransport, Relay, RelaySettings};
/// let db = Database::memory()?;
/// let transport = MemoryTransport::new();
/// transport.refuse(|message| message.subject == "bad");
/// let relay = Relay::new(&db, transport.clone(), RelaySettings::default())?;
/// db.outbox().put("bad", "", None)?;
/// db.outbox().put("good", "", None)?;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// relay.round().await?;
/// assert_eq!((relay.figures().delivered, relay.figures().failed), (1, 1));
/// assert_eq!(transport.delivered()[0].subject, "good");
/// # Ok::<(), mainstay::Error>(()) }).unwrap();
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Default)]
pub struct MemoryTransport {
    inside: Mutex<Inside>,
    arrived: Condvar,
}

#[derive(Default)]
struct Inside {
    messages: Vec<Message>,
    refuses: Option<Refuses>,
}

impl MemoryTransport {
    /// Creates a transport that accepts all messages.
    pub fn new() -> Arc<MemoryTransport> {
        Arc::default()
    }

    /// Refuses all later messages for which the closure returns true.
    pub fn refuse(&self, refuses: impl FnMut(&Message) -> bool + Send + 'static) {
        self.inside.lock().refuses = Some(Box::new(refuses));
    }

    /// The delivered messages, in order. A message delivered twice is in the list twice.
    pub fn delivered(&self) -> Vec<Message> {
        self.inside.lock().messages.clone()
    }

    /// Waits for at least this many messages, at most a minute. Returns the delivered messages.
    pub fn wait_for(&self, count: usize) -> Vec<Message> {
        let mut inside = self.inside.lock();
        while inside.messages.len() < count {
            if self.arrived.wait_for(&mut inside, PATIENCE).timed_out() {
                break;
            }
        }
        inside.messages.clone()
    }

    fn take(&self, message: &Message) -> Result<()> {
        let mut inside = self.inside.lock();
        if inside.refuses.as_mut().is_some_and(|refuses| refuses(message)) {
            let message = format!("message {} was refused, as it was told", message.id);
            return Err(Error::new(Code::TimedOut, message));
        }
        inside.messages.push(message.clone());
        self.arrived.notify_all();
        Ok(())
    }
}

impl Transport for MemoryTransport {
    fn name(&self) -> &str {
        "memory"
    }

    fn deliver<'a>(&'a self, message: &'a Message) -> Answering<'a, ()> {
        Box::pin(async move { self.take(message) })
    }
}

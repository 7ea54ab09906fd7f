//! In-memory transport, for tests and for receivers in this process.

use super::Transport;
use mainstay::{Answering, Code, Error, Message, Result};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// The timeout of a wait for messages.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

type RefuseFn = Box<dyn FnMut(&Message) -> bool + Send>;

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
/// assert_eq!((relay.stats().delivered, relay.stats().failed), (1, 1));
/// assert_eq!(transport.delivered()[0].subject, "good");
/// # Ok::<(), mainstay::Error>(()) }).unwrap();
/// # Ok::<(), mainstay::Error>(())
/// ```
#[derive(Default)]
pub struct MemoryTransport {
    log: Mutex<DeliveryLog>,
    delivery: Condvar,
}

#[derive(Default)]
struct DeliveryLog {
    messages: Vec<Message>,
    refuse_if: Option<RefuseFn>,
}

impl MemoryTransport {
    /// Creates a transport that accepts all messages.
    pub fn new() -> Arc<MemoryTransport> {
        Arc::default()
    }

    /// Refuses all later messages for which the closure returns true.
    pub fn refuse(&self, refuse_if: impl FnMut(&Message) -> bool + Send + 'static) {
        self.log.lock().refuse_if = Some(Box::new(refuse_if));
    }

    /// The delivered messages, in order. A message delivered twice is in the list twice.
    pub fn delivered(&self) -> Vec<Message> {
        self.log.lock().messages.clone()
    }

    /// Waits for at least this many messages, at most a minute. Returns the delivered messages.
    pub fn wait_for(&self, count: usize) -> Vec<Message> {
        let mut log = self.log.lock();
        while log.messages.len() < count {
            if self.delivery.wait_for(&mut log, WAIT_LIMIT).timed_out() {
                break;
            }
        }
        log.messages.clone()
    }

    fn receive(&self, message: &Message) -> Result<()> {
        let mut log = self.log.lock();
        if log.refuse_if.as_mut().is_some_and(|refuse_if| refuse_if(message)) {
            let message = format!("message {} was refused, as it was told", message.id);
            return Err(Error::new(Code::TimedOut, message));
        }
        log.messages.push(message.clone());
        self.delivery.notify_all();
        Ok(())
    }
}

impl Transport for MemoryTransport {
    fn name(&self) -> &str {
        "memory"
    }

    fn deliver<'a>(&'a self, message: &'a Message) -> Answering<'a, ()> {
        Box::pin(async move { self.receive(message) })
    }
}

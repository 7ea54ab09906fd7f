//! Transport to a served database, over RESP.

use super::{MessageWaker, Transport};
use mainstay::remote::{AsyncDatabase, AsyncFeed};
use mainstay::{Answering, ChangeKind, Contract, Filter, Name, Receipt, Result, Transaction};
use std::sync::Arc;
use std::time::Duration;

/// Maximum duration of one wait for server messages, after which it is repeated.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Transport to a served database, over the remote client. The client replaces broken connections.
/// Interrupted requests are sent again with the same number, by the client or by the session.
///
/// ```no_run
/// use mainstay::{SessionOptions, remote};
/// use mainstay_sessions::{Client, Served};
/// let db = remote::wait(remote::connect_async("127.0.0.1:7379"))?;
/// let session = Client::new(Served::new(&db))?.open(SessionOptions::new().name("till-7"))?;
/// # Ok::<(), mainstay::Error>(())
/// ```
pub struct Served {
    db: AsyncDatabase,
}

impl Served {
    /// Creates a transport to a served database.
    pub fn new(db: &AsyncDatabase) -> Arc<Served> {
        Arc::new(Served { db: db.clone() })
    }
}

impl Transport for Served {
    fn execute(&self, transaction: Transaction) -> Answering<'_, Receipt> {
        Box::pin(self.db.execute(transaction))
    }

    fn watch<'a>(&'a self, session: &'a Name) -> Answering<'a, Box<dyn MessageWaker>> {
        Box::pin(async move {
            let contract = Some(Contract::Sessions);
            let key = Some(session.as_str().to_owned());
            let filter = Filter { contract, key, ..Filter::default() };
            let feed = self.db.watch(filter, self.db.revision().await?).await?;
            Ok(Box::new(RemoteMessageWaker { feed }) as Box<dyn MessageWaker>)
        })
    }
}

struct RemoteMessageWaker {
    feed: AsyncFeed,
}

impl MessageWaker for RemoteMessageWaker {
    fn next(&mut self) -> Answering<'_, u64> {
        Box::pin(async move { self.next_message().await })
    }
}

impl RemoteMessageWaker {
    async fn next_message(&mut self) -> Result<u64> {
        loop {
            match self.feed.next(WAIT_TIMEOUT).await? {
                Some(event) if event.kind == ChangeKind::Sent => return Ok(event.counter),
                _ => {}
            }
        }
    }
}

//! Transport to a served database, over RESP.

use super::{Doorbell, Transport};
use mainstay::remote::{AsyncDatabase, AsyncFeed};
use mainstay::{Answering, ChangeKind, Contract, Filter, Name, Receipt, Result, Transaction};
use std::sync::Arc;
use std::time::Duration;

/// Maximum duration of one wait for letters, after which it is repeated.
const ROUND: Duration = Duration::from_secs(60);

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

    fn watch<'a>(&'a self, session: &'a Name) -> Answering<'a, Box<dyn Doorbell>> {
        Box::pin(async move {
            let contract = Some(Contract::Sessions);
            let key = Some(session.as_str().to_owned());
            let filter = Filter { contract, key, ..Filter::default() };
            let feed = self.db.watch(filter, self.db.revision().await?).await?;
            Ok(Box::new(Bell { feed }) as Box<dyn Doorbell>)
        })
    }
}

struct Bell {
    feed: AsyncFeed,
}

impl Doorbell for Bell {
    fn next(&mut self) -> Answering<'_, u64> {
        Box::pin(async move { self.sent().await })
    }
}

impl Bell {
    async fn sent(&mut self) -> Result<u64> {
        loop {
            match self.feed.next(ROUND).await? {
                Some(event) if event.kind == ChangeKind::Sent => return Ok(event.counter),
                _ => {}
            }
        }
    }
}

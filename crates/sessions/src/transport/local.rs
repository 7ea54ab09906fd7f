//! Transport to an embedded database.

use super::notifier::Notifier;
use super::{MessageWaker, Transport};
use mainstay::{Answering, Code, Database, Error, Name, Receipt, Result, Transaction};
use parking_lot::Mutex;
use std::sync::Arc;

/// Transport to an embedded database. All listeners share one thread, which starts with the first of them.
///
/// ```
/// use mainstay::{Database, SessionOptions};
/// use mainstay_sessions::{Client, Local};
/// let db = Database::memory()?;
/// let client = Client::new(Local::new(&db)?)?;
/// assert!(client.open(SessionOptions::new().name("till-7"))?.is_live());
/// # Ok::<(), mainstay::Error>(())
/// ```
pub struct Local {
    notifier: Mutex<Arc<Notifier>>,
}

impl Local {
    /// Creates a transport to an embedded database. Fails with `Unsupported` for a served one.
    pub fn new(db: &Database) -> Result<Arc<Local>> {
        Ok(Arc::new(Local { notifier: Mutex::new(Notifier::new(check_embedded(db)?)) }))
    }

    /// Switches to another handle of the same database, after it was closed and reopened. Listeners on the
    /// old handle get an error.
    pub fn replace(&self, db: &Database) -> Result<()> {
        let new = Notifier::new(check_embedded(db)?);
        let old = std::mem::replace(&mut *self.notifier.lock(), new);
        old.close();
        Ok(())
    }

    fn notifier(&self) -> Arc<Notifier> {
        self.notifier.lock().clone()
    }
}

impl Transport for Local {
    fn execute(&self, transaction: Transaction) -> Answering<'_, Receipt> {
        Box::pin(async move {
            let ticket = self.notifier().db.submit(transaction);
            ticket.await
        })
    }

    fn watch<'a>(&'a self, session: &'a Name) -> Answering<'a, Box<dyn MessageWaker>> {
        Box::pin(async move { self.notifier().watch(session) })
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.notifier().close();
    }
}

fn check_embedded(db: &Database) -> Result<Database> {
    if db.is_here() {
        Ok(db.clone())
    } else {
        let message = "the database is served: use `Served` with what `connect_async` gives";
        Err(Error::new(Code::Unsupported, message))
    }
}

//! Location of a database: embedded in this process, or behind a server.

use mainstay_client::{AsyncDatabase, ConnectionPool};
use mainstay_engine::lifecycle::engine::Engine;
use mainstay_model::{Code, Error, Receipt, Result, Transaction};
use std::sync::Arc;

#[derive(Clone)]
pub(crate) enum Backend {
    /// In this process.
    Local(Arc<Engine>),
    /// Behind a server.
    Remote(Arc<ConnectionPool>),
}

impl Backend {
    /// Returns the embedded engine. For a served database, fails with `Unsupported`, naming `what` in the
    /// message.
    pub fn here(&self, what: &str) -> Result<&Arc<Engine>> {
        match self {
            Backend::Local(core) => Ok(core),
            Backend::Remote(_) => Err(not_here(what)),
        }
    }

    /// Executes a transaction and blocks until it has an outcome.
    pub fn execute(&self, transaction: Transaction) -> Result<Receipt> {
        match self {
            Backend::Local(core) => core.execute(transaction),
            Backend::Remote(link) => link.execute_and_wait(&transaction),
        }
    }

    /// Returns the async client API over the same server connections.
    pub fn there(link: &Arc<ConnectionPool>) -> AsyncDatabase {
        AsyncDatabase::new(link.clone())
    }
}

#[cold]
fn not_here(what: &str) -> Error {
    let message = format!(
        "{what} needs the files of the database, which a server has: ask its HTTP face, or use the \
         command line beside them"
    );
    Error::new(Code::Unsupported, message)
}

//! Where a database is: in this process, or behind a server.

use crate::lifecycle::engine::Engine;
use crate::remote::{AsyncDatabase, ConnectionPool};
use mainstay_model::{Code, Error, Receipt, Result, Transaction};
use std::sync::Arc;

/// Where a database is.
#[derive(Clone)]
pub(crate) enum Backend {
    /// In this process.
    Local(Arc<Engine>),
    /// Behind a server.
    Remote(Arc<ConnectionPool>),
}

impl Backend {
    /// The database in this process, for what needs its files.
    pub fn here(&self, what: &str) -> Result<&Arc<Engine>> {
        match self {
            Backend::Local(core) => Ok(core),
            Backend::Remote(_) => Err(not_here(what)),
        }
    }

    /// Executes a transaction and waits.
    pub fn execute(&self, transaction: Transaction) -> Result<Receipt> {
        match self {
            Backend::Local(core) => core.execute(transaction),
            Backend::Remote(link) => link.execute_and_wait(&transaction),
        }
    }

    /// The same database, to be awaited.
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

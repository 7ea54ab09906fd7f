//! Where a database is: in this process, or behind a server.

use crate::lifecycle::core::Core;
use crate::remote::{AsyncDatabase, Link};
use mainstay_model::{Code, Error, Receipt, Result, Transaction};
use std::sync::Arc;

/// Where a database is.
#[derive(Clone)]
pub(crate) enum Place {
    /// In this process.
    Here(Arc<Core>),
    /// Behind a server.
    There(Arc<Link>),
}

impl Place {
    /// The database in this process, for what needs its files.
    pub fn here(&self, what: &str) -> Result<&Arc<Core>> {
        match self {
            Place::Here(core) => Ok(core),
            Place::There(_) => Err(not_here(what)),
        }
    }

    /// Executes a transaction and waits.
    pub fn execute(&self, transaction: Transaction) -> Result<Receipt> {
        match self {
            Place::Here(core) => core.execute(transaction),
            Place::There(link) => link.execute_and_wait(&transaction),
        }
    }

    /// The same database, to be awaited.
    pub fn there(link: &Arc<Link>) -> AsyncDatabase {
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

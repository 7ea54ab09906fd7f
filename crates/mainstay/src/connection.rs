//! A connection: routes cell operations to its open transaction, or directly to the database.

use crate::backend::Backend;
use crate::branch::Branch;
use crate::cells::Cells;
use crate::transaction::InteractiveTransaction;
use mainstay_model::{Code, Error, MAIN, Number, Page, Receipt, Result, Ttl, Value, Versioned};

/// A connection with at most one open transaction, like a network connection or a client session.
///
/// ```
/// let db = mainstay::Database::memory()?;
/// let mut connection = db.connection();
/// connection.begin()?;
/// connection.set("a", 1)?;
/// assert_eq!(db.cells().get("a")?, None);
/// connection.commit()?;
/// assert_eq!(db.cells().get("a")?, Some(1.into()));
/// # Ok::<(), mainstay::Error>(())
/// ```
pub struct Connection {
    place: Backend,
    branch: String,
    open: Option<InteractiveTransaction>,
}

/// Generates a method that calls the open transaction if one is open, and otherwise the database.
macro_rules! route {
    ($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) -> $answer:ty) => {
        $(#[$doc])*
        pub fn $name(&mut self, $($arg: $type),*) -> Result<$answer> {
            match &mut self.open {
                Some(transaction) => transaction.$name($($arg),*),
                None => self.cells().$name($($arg),*),
            }
        }
    };
}

impl Connection {
    pub(crate) fn new(place: Backend) -> Connection {
        Connection { place, branch: MAIN.to_owned(), open: None }
    }

    fn cells(&self) -> Cells {
        Cells::on(self.place.clone(), &self.branch)
    }

    /// The name of the branch that this connection works on.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// Switches to another branch. Fails with `TransactionActive` while a transaction is open, and with
    /// `BranchNotFound` if no such branch exists.
    pub fn use_branch(&mut self, branch: &str) -> Result<()> {
        self.check_none()?;
        Branch::open(&self.place, branch)?;
        self.branch = branch.to_owned();
        Ok(())
    }

    /// Returns whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.open.is_some()
    }

    /// Begins a transaction. Fails with `TransactionActive` if one is already open.
    pub fn begin(&mut self) -> Result<()> {
        self.check_none()?;
        self.open = Some(InteractiveTransaction::begin(&self.place, &self.branch)?);
        Ok(())
    }

    /// Commits the open transaction and blocks until it has an outcome. The transaction is closed in any
    /// case, also if the commit fails.
    pub fn commit(&mut self) -> Result<Receipt> {
        self.open.take().ok_or_else(none_open)?.commit()
    }

    /// Discards the open transaction. Fails with `NoTransaction` if none is open.
    pub fn rollback(&mut self) -> Result<()> {
        self.open.take().map(InteractiveTransaction::rollback).ok_or_else(none_open)
    }

    fn check_none(&self) -> Result<()> {
        match self.open {
            None => Ok(()),
            Some(_) => Err(Error::new(
                Code::TransactionActive,
                "a transaction is open on this connection: commit it or roll it back first",
            )),
        }
    }

    route! {
        /// Returns the value of a cell, or `None` if it is absent.
        get(name: &str) -> Option<Value>
    }
    route! {
        /// Returns the value of a cell with its counter, stamp and revision, or `None` if the cell is
        /// absent.
        get_versioned(name: &str) -> Option<Versioned>
    }
    route! {
        /// Lists cell names in byte order: at most `limit` names that begin with `prefix` and sort after
        /// `after`.
        list(prefix: &str, after: Option<&str>, limit: usize) -> Page
    }
    route! {
        /// Writes the cell only if it is absent. Returns its counter in both cases.
        init(name: &str, value: impl Into<Value>) -> u64
    }
    route! {
        /// Writes a cell. Returns its new counter.
        set(name: &str, value: impl Into<Value>) -> u64
    }
    route! {
        /// Writes a cell with a time to live. Returns its new counter.
        set_with(name: &str, value: impl Into<Value>, ttl: Ttl) -> u64
    }
    route! {
        /// Compare-and-swap: writes if the counter equals `expected` (`None`: if the cell is absent).
        /// Returns the new counter, or `None` if the counter differs.
        cas(name: &str, expected: Option<u64>, value: impl Into<Value>) -> Option<u64>
    }
    route! {
        /// Deletes a cell. Returns whether it existed.
        delete(name: &str) -> bool
    }
    route! {
        /// Deletes a cell if its counter equals `counter`. Returns whether it was deleted.
        delete_if(name: &str, counter: u64) -> bool
    }
    route! {
        /// Adds `by` to a number. Returns the sum and the new counter.
        incr(name: &str, by: impl Into<Number>) -> (Value, u64)
    }
    route! {
        /// Changes a cell's time to live. Returns whether the cell exists.
        expire(name: &str, ttl: Ttl) -> bool
    }
}

#[cold]
fn none_open() -> Error {
    Error::new(Code::NoTransaction, "no transaction is open on this connection: begin one first")
}

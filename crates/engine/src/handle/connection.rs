//! A connection: routes cell operations to its open transaction, or straight to the database.

use crate::handle::backend::Backend;
use crate::handle::branch::Branch;
use crate::handle::cells::Cells;
use crate::handle::transaction::InteractiveTransaction;
use mainstay_model::{Code, Error, MAIN, Number, Page, Receipt, Result, Ttl, Value, Versioned};

/// A place that has at most one open transaction, as a wire connection or a session has.
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

/// Sends an operation to the open transaction or to the database.
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

    /// The branch it works on.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// Changes the branch; not while a transaction is open.
    pub fn use_branch(&mut self, branch: &str) -> Result<()> {
        self.check_none()?;
        Branch::open(&self.place, branch)?;
        self.branch = branch.to_owned();
        Ok(())
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.open.is_some()
    }

    /// Begins a transaction.
    pub fn begin(&mut self) -> Result<()> {
        self.check_none()?;
        self.open = Some(InteractiveTransaction::begin(&self.place, &self.branch)?);
        Ok(())
    }

    /// Commits the open transaction. It is over, whatever the answer.
    pub fn commit(&mut self) -> Result<Receipt> {
        self.open.take().ok_or_else(none_open)?.commit()
    }

    /// Forgets the open transaction.
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
        /// The value of a cell.
        get(name: &str) -> Option<Value>
    }
    route! {
        /// The value of a cell with its counter, stamp and revision.
        get_versioned(name: &str) -> Option<Versioned>
    }
    route! {
        /// Names in byte order.
        list(prefix: &str, after: Option<&str>, limit: usize) -> Page
    }
    route! {
        /// Writes when the cell is absent; gives its counter either way.
        init(name: &str, value: impl Into<Value>) -> u64
    }
    route! {
        /// Writes; gives the counter.
        set(name: &str, value: impl Into<Value>) -> u64
    }
    route! {
        /// Writes with a time to live; gives the counter.
        set_with(name: &str, value: impl Into<Value>, ttl: Ttl) -> u64
    }
    route! {
        /// Writes when the counter is the expected one (`None`: when absent).
        cas(name: &str, expected: Option<u64>, value: impl Into<Value>) -> Option<u64>
    }
    route! {
        /// Deletes; says whether the cell existed.
        delete(name: &str) -> bool
    }
    route! {
        /// Deletes when the counter is this one.
        delete_if(name: &str, counter: u64) -> bool
    }
    route! {
        /// Adds to a number; gives the sum and the counter.
        incr(name: &str, by: impl Into<Number>) -> (Value, u64)
    }
    route! {
        /// Changes a cell's time to live; says whether the cell exists.
        expire(name: &str, ttl: Ttl) -> bool
    }
}

#[cold]
fn none_open() -> Error {
    Error::new(Code::NoTransaction, "no transaction is open on this connection: begin one first")
}

//! The way to a database: what a client needs of it, and nothing of sockets.

mod faulty;
mod local;
mod post;
mod served;

pub use faulty::{Faults, Faulty, Losses};
pub use local::Local;
pub use served::Served;

use mainstay::{Answering, Name, Receipt, Transaction};

/// The way to a database.
///
/// A transport may lose, repeat, delay and reorder whatever it carries. What it says of its failures has to be true:
///
/// - `Unavailable`: this call did not execute the transaction, and will not.
/// - `UnknownOutcome`: this call may have executed it, or may yet.
/// - everything else is what the database answered.
///
/// A transport that brings several copies within one call speaks for all of them: where one copy is refused (`SessionExpired`,
/// `Unavailable`, `ReadOnly` and the like) and another one may have been executed, or may yet be, it says `UnknownOutcome`.
/// The first copy may have been executed before the session went that the second one asks for in vain.
pub trait Transport: Send + Sync {
    /// Executes a transaction.
    fn execute(&self, transaction: Transaction) -> Answering<'_, Receipt>;

    /// Listens for requests of the server to the client of a session, from now on.
    fn watch<'a>(&'a self, session: &'a Name) -> Answering<'a, Box<dyn Doorbell>>;
}

/// Tells that something was sent to the client of a session.
pub trait Doorbell: Send {
    /// The number of something that was sent since; waits for it. Those of several may be told as one, the last; what is
    /// told is on stable storage. After an error the bell is broken: whoever goes on listening asks what is pending.
    fn next(&mut self) -> Answering<'_, u64>;
}

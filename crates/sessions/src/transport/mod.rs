//! Transport interface of a client: two methods, independent of sockets.

mod faulty;
mod local;
mod notifier;
mod served;

pub use faulty::{FaultCounts, Faults, Faulty};
pub use local::Local;
pub use served::Served;

use mainstay::{Answering, Name, Receipt, Transaction};

/// A transport to a database.
///
/// A transport may lose, repeat, delay and reorder requests. But its errors must be accurate:
///
/// - `Unavailable`: this call did not execute the transaction, and will not.
/// - `UnknownOutcome`: this call may have executed it, or may still execute it.
/// - Any other result is the answer of the database.
///
/// A transport that delivers several copies within one call reports one result for all of them. If one copy
/// is refused (`SessionExpired`, `Unavailable`, `ReadOnly` and the like) while another may be executed, it
/// must report `UnknownOutcome`. For example, the first copy may execute before the session ends, and the
/// second one then finds no session.
pub trait Transport: Send + Sync {
    /// Executes a transaction.
    fn execute(&self, transaction: Transaction) -> Answering<'_, Receipt>;

    /// Returns a message waker for server messages sent to this session from now on.
    fn watch<'a>(&'a self, session: &'a Name) -> Answering<'a, Box<dyn MessageWaker>>;
}

/// Signals server messages sent to the client of a session.
pub trait MessageWaker: Send {
    /// Waits for a server message and returns its number. Several server messages may be reported as one, with the last
    /// number. Reported server messages are durable. After an error the message waker is unusable, and the listener must
    /// fetch the pending server messages.
    fn next(&mut self) -> Answering<'_, u64>;
}

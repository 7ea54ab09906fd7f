//! The client of Mainstay's sessions: requests that are executed exactly once, whatever is lost on the way, and requests of
//! the server that arrive exactly once, in order.
//!
//! ```
//! use mainstay::{CellCommand, Database, Name, SessionOptions, Transaction};
//! use mainstay_sessions::{Client, Faults, Faulty, Local};
//!
//! let db = Database::memory()?;
//! // A way on which three of ten requests and three of ten answers are lost.
//! let lossy = Faulty::new(Local::new(&db)?, Faults::many(1));
//! let session = Client::new(lossy)?.open(SessionOptions::new().name("till-7"))?;
//!
//! // From one account to the other: sent until there is an answer, executed once.
//! let add = |name: &str, by: i64| -> mainstay::Result<_> {
//!     Ok(CellCommand::Incr { name: Name::new(name)?, by: by.into() })
//! };
//! session.execute(Transaction::new().step(add("alice", -30)?).step(add("bob", 30)?))?;
//! assert_eq!(db.cells().get("bob")?, Some(30.into()));
//! # Ok::<(), mainstay::Error>(())
//! ```
//!
//! ```text
//!   threads, tasks                      a session's client                               the database
//!   execute(t) ---> number 7 -------> attempt 7, lowest 5 ----x (lost)
//!   execute(t) ---> number 8 --.      pause, longer each time
//!                              |      attempt 7, lowest 5 ---------> executed, kept ---.
//!                              '----> attempt 8, lowest 5 ---------> executed, kept    |
//!                                     attempt 7, lowest 5 --x (answer lost) <----------'
//!   answer of 7 <-------------------- attempt 7, lowest 5 <--------> kept: told again
//!
//!   handler(letter) ok -------------> acknowledge 3 <--------------- send, by any transaction
//!   (idle) -------------------------> keep-alive, lowest 9 --------> lease anew; below 9 nothing is kept
//! ```
//!
//! - A [`Client`] opens sessions on one way to a database, a [`Transport`]: in this process ([`Local`]), served
//!   ([`Served`]), or a way of your own. [`Faulty`] lets everything go wrong on it.
//! - A [`Session`] waits, an [`AsyncSession`] is awaited; both are the same inside. Any number of threads or tasks may use
//!   one at once, [`Settings::window`] requests at a time.
//! - What is told is true: [`Session::execute`] gives the answer of the one execution; or an error that says whether there
//!   can have been one. Numbers are never used twice.
//! - A session is one client's at a time: whoever opens it has it, and what others sent, or send late, is refused.
//! - [`Session::listen`] has requests of the server handled, each once however often it is brought, as long as this client
//!   lives. A handler that was interrupted by the end of its process sees its last letter again: the letter's number tells
//!   it.

mod asynchronous;
mod client;
mod core;
mod failure;
mod figures;
mod keeper;
mod letters;
mod own_thread;
mod pauses;
mod planted;
mod race;
mod request;
mod runtime;
mod session;
mod settings;
#[cfg(feature = "simulation")]
pub mod simulation;
mod transport;
mod window;

pub use asynchronous::AsyncSession;
pub use client::Client;
pub use figures::Figures;
pub use letters::Letter;
pub use own_thread::OwnThread;
#[cfg(feature = "planted-faults")]
pub use planted::Planted;
pub use request::Request;
pub use runtime::{Runtime, Task};
pub use session::{Listener, Session};
pub use settings::{Settings, WINDOW_LIMIT};
pub use transport::{Doorbell, Faults, Faulty, Local, Losses, Served, Transport};

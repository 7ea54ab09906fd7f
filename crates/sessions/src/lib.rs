//! Client of Mainstay's sessions: exactly-once requests over lossy networks, and exactly-once, ordered
//! server messages from the server.
//!
//! ```
//! use mainstay::{CellCommand, Database, Name, SessionOptions, Transaction};
//! use mainstay_sessions::{Client, Faults, Faulty, Local};
//!
//! let db = Database::memory()?;
//! // A transport that loses three of ten requests and three of ten answers.
//! let lossy = Faulty::new(Local::new(&db)?, Faults::many(1));
//! let session = Client::new(lossy)?.open(SessionOptions::new().name("till-7"))?;
//!
//! // From one account to the other: sent until an answer arrives, executed once.
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
//!   execute(t) ---> number 8 --.      pause, doubled each time
//!                              |      attempt 7, lowest 5 ---------> executed, stored -.
//!                              '----> attempt 8, lowest 5 ---------> executed, stored  |
//!                                     attempt 7, lowest 5 --x (answer lost) <----------'
//!   answer of 7 <-------------------- attempt 7, lowest 5 <--------> stored answer, sent again
//!
//!   handler(message) ok ------------> acknowledge 3 <--------------- send, by any transaction
//!   (idle) -------------------------> keep-alive, lowest 9 --------> lease renewed; answers below 9 dropped
//! ```
//!
//! - A [`Client`] opens sessions over a [`Transport`] to a database: embedded ([`Local`]), served
//!   ([`Served`]), or your own. [`Faulty`] injects every kind of fault into one.
//! - A [`Session`] has a blocking API, an [`AsyncSession`] an async one, over the same core. Any number of threads or
//!   tasks may use a session at once, with [`Settings::window`] requests in flight.
//! - [`Session::execute`] returns the answer of the single execution, or an error that tells whether the request may have
//!   been executed. Request numbers are never reused.
//! - A session has one owner at a time: the client that opened it last. Requests of earlier owners are rejected, also
//!   late ones.
//! - [`Session::listen`] handles server messages, each once however often it is delivered, while this client lives.
//!   If the process ends during a handler call, the message is redelivered after the restart. Its number identifies it.

mod client;
mod failure;
mod fault_points;
mod protocol;
mod runtime;
mod settings;
#[cfg(feature = "simulation")]
pub mod simulation;
mod stats;
mod transport;

pub use client::Client;
pub use client::asynchronous::AsyncSession;
pub use client::session::{Listener, Session};
#[cfg(feature = "planted-faults")]
pub use fault_points::ClientFault;
pub use protocol::request::Request;
pub use protocol::server_messages::ServerMessage;
pub use runtime::timer_thread::TimerThread;
pub use runtime::{Runtime, Task};
pub use settings::{Settings, WINDOW_LIMIT};
pub use stats::ClientStats;
pub use transport::{FaultCounts, Faults, Faulty, Local, MessageWaker, Served, Transport};

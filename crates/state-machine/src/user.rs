//! The trait of a user's state machine: three pure functions.

use super::context::Context;
use super::state::StateView;
use mainstay_model::{Name, Result};

/// A user's state machine. Its functions are pure: their effects depend only on the state, the context and
/// the command, so that all replicas that apply the same log reach the same state.
///
/// They must not read a clock (the [`Context`] has the time), draw random numbers, keep data in `self`, or
/// depend on the order of a hash map.
///
/// | a function | its writes | its requests | the answer |
/// |---|---|---|---|
/// | returns | are kept | are sent | its response, stored for retries |
/// | returns an error response | are kept unless reverted ([`StateView::revert`]) | are sent | that response, stored likewise |
/// | returns an `Err` | are dropped | are dropped | the error, stored for retries |
/// | panics, or exceeds a limit | are dropped | are dropped | an error that reports it, stored for retries |
///
/// A panic is caught, so the program must not be built with `panic = "abort"`. The panic message goes to the
/// program's panic hook and is not in the answer, because messages may differ between builds and answers must
/// not.
///
/// ```
/// use mainstay_state_machine::*;
/// use mainstay_model::{Name, Result};
///
/// const GREETED: Table<Name, u64> = Table::new("greeted");
///
/// struct Greeter;
///
/// impl UserStateMachine for Greeter {
///     const NAME: &'static str = "greeter";
///     const VERSION: u32 = 1;
///     type Command = String;
///     type Response = u64;
///     type Request = String;
///
///     /// Greets back, and notifies all other sessions.
///     fn apply(
///         &self,
///         state: &mut StateView<'_>,
///         context: &Context<'_>,
///         word: String,
///     ) -> Result<Outcome<u64, String>> {
///         let Some(caller) = context.caller() else { return Ok(Outcome::error(0)) };
///         let times = GREETED.get(state, caller.name())?.unwrap_or(0) + 1;
///         GREETED.put(state, caller.name(), &times)?;
///         let mut outcome = Outcome::new(times);
///         for other in context.sessions().filter(|other| other.name() != caller.name()) {
///             outcome = outcome.send(other.name(), format!("{} says {word}", caller.name()));
///         }
///         Ok(outcome)
///     }
///
///     fn session_expired(
///         &self,
///         state: &mut StateView<'_>,
///         context: &Context<'_>,
///     ) -> Result<Vec<Emitted<String>>> {
///         if let Some(gone) = context.caller() {
///             GREETED.remove(state, gone.name())?;
///         }
///         Ok(Vec::new())
///     }
/// }
/// ```
pub trait UserStateMachine {
    /// The machine's name. A snapshot of a machine with another name cannot be restored.
    const NAME: &'static str;
    /// The version of the machine's state and behaviour. A snapshot of another version cannot be restored.
    const VERSION: u32;
    /// The commands of clients.
    type Command;
    /// The responses to commands.
    type Response;
    /// The requests of the machine to clients.
    type Request;

    /// Executes a command of a client, or an internal command, which has no caller.
    fn apply(
        &self,
        state: &mut StateView<'_>,
        context: &Context<'_>,
        command: Self::Command,
    ) -> Result<Outcome<Self::Response, Self::Request>>;

    /// Called when a session is opened, with the session as the caller. If it fails, the session is not
    /// opened.
    fn session_created(
        &self,
        state: &mut StateView<'_>,
        context: &Context<'_>,
    ) -> Result<Vec<Emitted<Self::Request>>> {
        let _ = state;
        let _ = context;
        Ok(Vec::new())
    }

    /// Called when a session ends, with the session as the caller. The session is already removed, so
    /// requests to it are dropped. If it fails, the session ends anyway.
    fn session_expired(
        &self,
        state: &mut StateView<'_>,
        context: &Context<'_>,
    ) -> Result<Vec<Emitted<Self::Request>>> {
        let _ = state;
        let _ = context;
        Ok(Vec::new())
    }
}

/// A request to a session's client. If the session does not exist, the request is dropped and counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emitted<Q> {
    /// The session.
    pub session: Name,
    /// The content.
    pub request: Q,
}

/// The result of a command: its response and its requests to clients.
///
/// ```
/// use mainstay_model::Name;
/// use mainstay_state_machine::Outcome;
/// let outcome = Outcome::new(3_u64).send(&Name::new("till-7")?, "close the drawer");
/// assert!(!outcome.is_error);
/// assert_eq!(outcome.requests.len(), 1);
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<R, Q> {
    /// The response.
    pub response: R,
    /// True if the response reports a failed command. Such a response is stored and repeated like any other.
    /// The command's writes are kept unless they were reverted.
    pub is_error: bool,
    /// Requests to clients, in the order in which they are numbered.
    pub requests: Vec<Emitted<Q>>,
}

impl<R, Q> Outcome<R, Q> {
    /// A response without requests.
    pub fn new(response: R) -> Outcome<R, Q> {
        Outcome { response, is_error: false, requests: Vec::new() }
    }

    /// A response that reports a failed command.
    pub fn error(response: R) -> Outcome<R, Q> {
        Outcome { response, is_error: true, requests: Vec::new() }
    }

    /// Adds a request to a session's client.
    #[must_use]
    pub fn send(mut self, session: &Name, request: Q) -> Outcome<R, Q> {
        self.requests.push(Emitted { session: session.clone(), request });
        self
    }
}

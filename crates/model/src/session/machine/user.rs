//! What a user writes: three functions.

use super::context::Context;
use super::state::StateView;
use crate::{Name, Result};

/// A state machine of a user's own. Its functions are pure: what they do follows from the state, the context and the
/// command alone, so that every replica that applies the same log comes to the same state.
///
/// They read no clock (the [`Context`] has the time), draw no random numbers, keep nothing in `self`, and do not depend
/// on the order of a hash map.
///
/// | a function | what it wrote | its requests | the answer |
/// |---|---|---|---|
/// | returns | is kept | are sent | its response, kept for repeats |
/// | returns a response that is an error | is kept, but for what [`StateView::revert`] took back | are sent | that response, kept likewise |
/// | returns an `Err` | is dropped | are dropped | the error, kept likewise |
/// | panics, or says more than the limits allow | is dropped | are dropped | an error that says so, kept likewise |
///
/// A panic is caught, so the program must not be built with `panic = "abort"`. What it said is printed by the program's
/// panic hook and is not in the answer: it may differ from one build to the next, and answers may not.
///
/// ```
/// use mainstay_model::machine::*;
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
///     /// Greets back, and tells everybody else.
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
    /// The machine's name. A snapshot of another one is not restored.
    const NAME: &'static str;
    /// The version of what it keeps and does. A snapshot of another one is not restored.
    const VERSION: u32;
    /// What clients ask for.
    type Command;
    /// What they are answered.
    type Response;
    /// What the machine asks clients for.
    type Request;

    /// Executes a command of a client, or an internal one, which has no caller.
    fn apply(
        &self,
        state: &mut StateView<'_>,
        context: &Context<'_>,
        command: Self::Command,
    ) -> Result<Outcome<Self::Response, Self::Request>>;

    /// A session was opened; it is the caller. If this fails the session is not opened.
    fn session_created(
        &self,
        state: &mut StateView<'_>,
        context: &Context<'_>,
    ) -> Result<Vec<Emitted<Self::Request>>> {
        let (_, _) = (state, context);
        Ok(Vec::new())
    }

    /// A session ends; it is the caller, and no longer among the sessions: what is sent to it is dropped. If this fails
    /// the session ends all the same.
    fn session_expired(
        &self,
        state: &mut StateView<'_>,
        context: &Context<'_>,
    ) -> Result<Vec<Emitted<Self::Request>>> {
        let (_, _) = (state, context);
        Ok(Vec::new())
    }
}

/// A request that a function sends to a session's client. To a session that does not exist it is dropped, and counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emitted<Q> {
    /// The session.
    pub session: Name,
    /// What it says.
    pub request: Q,
}

/// What a command comes to: its response, and requests to clients.
///
/// ```
/// use mainstay_model::Name;
/// use mainstay_model::machine::Outcome;
/// let outcome = Outcome::new(3_u64).send(&Name::new("till-7")?, "close the drawer");
/// assert!(!outcome.is_error);
/// assert_eq!(outcome.requests.len(), 1);
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<R, Q> {
    /// The response.
    pub response: R,
    /// Whether it says that the command failed. It is kept and repeated like any other, and what the command wrote
    /// before stays unless it was reverted.
    pub is_error: bool,
    /// Requests to clients, in the order in which they get their numbers.
    pub requests: Vec<Emitted<Q>>,
}

impl<R, Q> Outcome<R, Q> {
    /// A response, and no request.
    pub fn new(response: R) -> Outcome<R, Q> {
        Outcome { response, is_error: false, requests: Vec::new() }
    }

    /// A response that says that the command failed.
    pub fn error(response: R) -> Outcome<R, Q> {
        Outcome { response, is_error: true, requests: Vec::new() }
    }

    /// Sends a request to a session's client, too.
    #[must_use]
    pub fn send(mut self, session: &Name, request: Q) -> Outcome<R, Q> {
        self.requests.push(Emitted { session: session.clone(), request });
        self
    }
}

//! The session machine: applies log entries and calls the user's machine.

use super::call::{Called, call, say_outcome, say_requests};
use super::codec::{Codec, Postcard};
use super::context::{Context, SessionMetadata};
use super::core::Core;
use super::input::Input;
use super::limits::Limits;
use super::output::{Answer, Output, Response, ServerRequest};
use super::reply::Reply;
use super::sessions::Session;
use super::user::UserStateMachine;
use mainstay_model::SESSION_LEASE_MS;
use mainstay_model::{Code, Error, Name, Result, SessionRequest, Stamp};
use std::marker::PhantomData;

/// A codec for all commands, responses and requests of a machine.
pub trait MachineCodec<M: UserStateMachine>:
    Codec<M::Command> + Codec<M::Response> + Codec<M::Request>
{
}

impl<M, C> MachineCodec<M> for C
where
    M: UserStateMachine,
    C: Codec<M::Command> + Codec<M::Response> + Codec<M::Request>,
{
}

/// A user's machine with sessions. It is deterministic: the same entries give the same state on every
/// replica.
///
/// ```
/// use mainstay_state_machine::*;
/// use mainstay_model::{Name, Result, SessionRequest};
///
/// struct Counter;
/// const TOTAL: Table<u8, u64> = Table::new("total");
///
/// impl UserStateMachine for Counter {
///     const NAME: &'static str = "counter";
///     const VERSION: u32 = 1;
///     type Command = u64;
///     type Response = u64;
///     type Request = ();
///
///     fn apply(&self, state: &mut StateView<'_>, _: &Context<'_>, add: u64) -> Result<Outcome<u64, ()>> {
///         let total = TOTAL.get(state, &0)?.unwrap_or(0) + add;
///         TOTAL.put(state, &0, &total)?;
///         Ok(Outcome::new(total))
///     }
/// }
///
/// let mut machine = SessionMachine::<Counter>::new(Counter);
/// let till = Name::new("till-7")?;
/// machine.apply(1, &Input::open(till.clone())).answer?;
///
/// let add = SessionMachine::<Counter>::request(SessionRequest::new(till, 1, 1), &5)?;
/// for is_repeat in [false, true] {
///     let output = machine.apply(2, &add);
///     let response = output.response().unwrap();
///     assert_eq!(response.reply.decode::<u64, Postcard>()?, 5);
///     assert_eq!(response.is_repeat, is_repeat);
/// }
/// # Ok::<(), mainstay_model::Error>(())
/// ```
pub struct SessionMachine<M, C = Postcard> {
    pub(super) machine: M,
    pub(super) core: Core,
    pub(super) codec: PhantomData<fn() -> C>,
}

impl<M: UserStateMachine, C: MachineCodec<M>> SessionMachine<M, C> {
    /// Creates a machine in its initial state.
    pub fn new(machine: M) -> SessionMachine<M, C> {
        SessionMachine { machine, core: Core::default(), codec: PhantomData }
    }

    /// Creates a machine with other limits. All replicas must use the same limits before the first entry.
    pub fn with_limits(machine: M, limits: Limits) -> Result<SessionMachine<M, C>> {
        limits.check()?;
        let core = Core { limits, ..Core::default() };
        Ok(SessionMachine { machine, core, codec: PhantomData })
    }

    /// Encodes a client's request as a log entry.
    pub fn request(request: SessionRequest, command: &M::Command) -> Result<Input> {
        Ok(Input::Request { request, command: <C as Codec<M::Command>>::to_bytes(command)? })
    }

    /// Encodes a command without a session as a log entry.
    pub fn internal(command: &M::Command) -> Result<Input> {
        Ok(Input::Internal { command: <C as Codec<M::Command>>::to_bytes(command)? })
    }

    /// Encodes a request to a session's client as a log entry.
    pub fn send(session: Name, request: &M::Request) -> Result<Input> {
        Ok(Input::Send { session, payload: <C as Codec<M::Request>>::to_bytes(request)? })
    }

    /// Applies a log entry. `now` is the time assigned when the entry was appended to the log, equal on every
    /// replica. A time before the last entry's counts as the last entry's.
    ///
    /// An invalid entry ([`Input::check`]) is refused and changes nothing at all.
    pub fn apply(&mut self, now: Stamp, input: &Input) -> Output {
        if let Err(error) = input.check() {
            return Output::new(Err(error));
        }
        let before = self.core.clock;
        let now = self.core.advance(now);
        match input {
            Input::Open { session, lease_ms, capabilities } => {
                let lease_ms = lease_ms.unwrap_or(SESSION_LEASE_MS);
                self.open(now, session, lease_ms, capabilities)
            }
            Input::Request { request, command } => self.answer(now, request, command),
            Input::Internal { command } => self.internal_command(now, command),
            Input::KeepAlive { session, lowest_pending } => {
                Output::new(self.core.keep_alive(now, session, *lowest_pending))
            }
            Input::Acknowledge { session, upto } => {
                Output::new(self.core.acknowledge(now, session, *upto))
            }
            Input::Send { session, payload } => self.core.send(now, session, payload),
            Input::Close { session } => self.end_named(now, session, Ending::Closed),
            Input::Expire { session } => self.end_named(now, session, Ending::Expired),
            Input::ExpireDue { limit } => self.expire_due(now, *limit),
            Input::Retry { sent_before, limit } => self.core.retry(now, *sent_before, *limit),
            Input::RenewLeases => Output::new(Ok(self.core.renew_leases(before, now))),
            Input::SetLimits(limits) => Output::new(Ok(self.core.set_limits(now, *limits))),
        }
    }

    /// Answers a client's request: with its stored reply, with an error if it was evicted, or by executing it
    /// and storing the reply.
    fn answer(&mut self, now: Stamp, request: &SessionRequest, command: &[u8]) -> Output {
        match self.core.judge(now, request) {
            Err(error) => Output::new(Err(error)),
            Ok(Some(reply)) => respond(reply, true, Vec::new()),
            Ok(None) => {
                self.core.counters.executed += 1;
                let (reply, requests) = self.execute(now, Some(&request.session), command);
                self.core.keep(request, reply.clone());
                respond(reply, false, requests)
            }
        }
    }

    fn internal_command(&mut self, now: Stamp, command: &[u8]) -> Output {
        self.core.counters.internal += 1;
        let (reply, requests) = self.execute(now, None, command);
        respond(reply, false, requests)
    }

    /// Executes a command. A command that cannot be decoded is aborted, because decoding fails on every
    /// replica.
    fn execute(
        &mut self,
        now: Stamp,
        caller: Option<&Name>,
        command: &[u8],
    ) -> (Reply, Vec<ServerRequest>) {
        let sessions = &self.core.sessions;
        let caller = caller.and_then(|name| sessions.live_entry(name, now));
        let caller = caller.map(|(name, session)| SessionMetadata::new(name, session));
        let context = Context::new(now, caller, sessions);
        let called = call(&self.core.state, |view| {
            let command = <C as Codec<M::Command>>::decode(command)?;
            say_outcome::<_, _, C>(self.machine.apply(view, &context, command)?)
        });
        self.core.settle(now, called).unwrap_or_else(|error| {
            self.core.counters.aborted += 1;
            (Reply::aborted(&error), Vec::new())
        })
    }

    /// Finds the session of a name or creates it. An expired one is ended first.
    fn open(
        &mut self,
        now: Stamp,
        name: &Name,
        lease_ms: u64,
        capabilities: &[(String, String)],
    ) -> Output {
        if let Some(session) = self.core.sessions.live_mut(name, now) {
            session.renew(now);
            let info = session.info(name);
            return Output::new(Ok(Answer::Opened { info, created: false }));
        }
        // End an expired session first, so that its hook runs before the new session exists.
        let mut requests = self.end(now, name, Ending::Expired).unwrap_or_default();
        let created = self.create(now, name, lease_ms, capabilities);
        let answer = created.and_then(|more| {
            requests.extend(more);
            self.opened(name)
        });
        Output { answer, requests }
    }

    /// Creates a session that continues the numbers of a former one. If the user's hook fails, no session is
    /// created.
    fn create(
        &mut self,
        now: Stamp,
        name: &Name,
        lease_ms: u64,
        capabilities: &[(String, String)],
    ) -> Result<Vec<ServerRequest>> {
        let Core { sessions, limits, .. } = &mut self.core;
        if sessions.len() >= limits.sessions {
            return Err(too_many(limits.sessions));
        }
        sessions.formers.forget(now, limits.formers);
        let former = sessions.formers.get(name);
        let session = Session::new(now, lease_ms, capabilities.to_vec(), former);
        sessions.insert(name.clone(), session);
        let called = self.call_created(now, name);
        let (_, requests) = self.core.settle(now, called).inspect_err(|_| {
            self.core.counters.hooks_failed += 1;
            self.core.sessions.remove(name);
        })?;
        self.core.sessions.formers.take(name);
        self.core.counters.opened += 1;
        Ok(requests)
    }

    fn call_created(&self, now: Stamp, name: &Name) -> Called {
        let sessions = &self.core.sessions;
        let caller = sessions.live_entry(name, now);
        let caller = caller.map(|(name, session)| SessionMetadata::new(name, session));
        let context = Context::new(now, caller, sessions);
        call(&self.core.state, |view| {
            say_requests::<_, C>(self.machine.session_created(view, &context)?)
        })
    }

    fn opened(&self, name: &Name) -> Result<Answer> {
        let info = self.info(name).ok_or_else(|| Error::new(Code::SessionExpired, "it is gone"))?;
        Ok(Answer::Opened { info, created: true })
    }

    /// Ends the session of a name. A session whose lease has expired counts as expired and returns
    /// `Ended(false)`.
    fn end_named(&mut self, now: Stamp, name: &Name, ending: Ending) -> Output {
        let was_live = self.core.sessions.live_entry(name, now).is_some();
        let ending = if was_live { ending } else { Ending::Expired };
        let requests = self.end(now, name, ending).unwrap_or_default();
        Output { answer: Ok(Answer::Ended(was_live)), requests }
    }

    fn expire_due(&mut self, now: Stamp, limit: usize) -> Output {
        let due = self.core.sessions.iter().filter(|(_, session)| !session.is_live(now));
        // One more than the limit shows whether more remain.
        let mut due: Vec<Name> = due.map(|(name, _)| name.clone()).take(limit + 1).collect();
        let more = due.len() > limit;
        due.truncate(limit);
        let ended: Vec<_> =
            due.iter().filter_map(|name| self.end(now, name, Ending::Expired)).collect();
        let count = ended.len() as u64;
        let requests = ended.into_iter().flatten().collect();
        Output { answer: Ok(Answer::Expired { count, more }), requests }
    }

    /// Ends an existing session. Returns the requests that the user's hook sends to other clients. If the
    /// hook fails, the session is removed anyway, otherwise it could never end.
    fn end(&mut self, now: Stamp, name: &Name, ending: Ending) -> Option<Vec<ServerRequest>> {
        let session = self.core.remove(now, name)?;
        match ending {
            Ending::Closed => self.core.counters.closed += 1,
            Ending::Expired => self.core.counters.expired += 1,
        }
        let caller = SessionMetadata::new(name, &session);
        let context = Context::new(now, Some(caller), &self.core.sessions);
        let called = call(&self.core.state, |view| {
            say_requests::<_, C>(self.machine.session_expired(view, &context)?)
        });
        match self.core.settle(now, called) {
            Ok((_, requests)) => Some(requests),
            Err(_) => {
                self.core.counters.hooks_failed += 1;
                Some(Vec::new())
            }
        }
    }
}

/// The reason why a session ends.
#[derive(Clone, Copy)]
enum Ending {
    Closed,
    Expired,
}

impl<M: Clone, C> Clone for SessionMachine<M, C> {
    fn clone(&self) -> SessionMachine<M, C> {
        let machine = self.machine.clone();
        let core = self.core.clone();
        SessionMachine { machine, core, codec: PhantomData }
    }
}

impl<M: UserStateMachine, C> std::fmt::Debug for SessionMachine<M, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionMachine").field("name", &M::NAME).field("core", &self.core).finish()
    }
}

fn respond(reply: Reply, is_repeat: bool, requests: Vec<ServerRequest>) -> Output {
    Output { answer: Ok(Answer::Response(Response { reply, is_repeat })), requests }
}

#[cold]
fn too_many(limit: usize) -> Error {
    let message = format!("there are {limit} sessions: let some end before others begin");
    Error::new(Code::TooManySessions, message)
}

//! The machine around a user's machine.

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
use crate::session::SESSION_LEASE_MS;
use crate::{Code, Error, Name, Result, SessionRequest, Stamp};
use std::marker::PhantomData;

/// A codec for all that a machine says and is told.
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

/// A user's machine with sessions around it: a value that comes to the same state wherever the same entries are applied
/// to it.
///
/// ```
/// use mainstay_model::machine::*;
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
    /// A machine in which nothing has happened yet.
    pub fn new(machine: M) -> SessionMachine<M, C> {
        SessionMachine { machine, core: Core::default(), codec: PhantomData }
    }

    /// The same with other limits, which every replica has to be given before the first entry.
    pub fn with_limits(machine: M, limits: Limits) -> Result<SessionMachine<M, C>> {
        limits.check()?;
        let core = Core { limits, ..Core::default() };
        Ok(SessionMachine { machine, core, codec: PhantomData })
    }

    /// A client's request as an entry of the log.
    pub fn request(request: SessionRequest, command: &M::Command) -> Result<Input> {
        Ok(Input::Request { request, command: <C as Codec<M::Command>>::to_bytes(command)? })
    }

    /// A command of nobody's as an entry of the log.
    pub fn internal(command: &M::Command) -> Result<Input> {
        Ok(Input::Internal { command: <C as Codec<M::Command>>::to_bytes(command)? })
    }

    /// A request to a session's client as an entry of the log.
    pub fn send(session: Name, request: &M::Request) -> Result<Input> {
        Ok(Input::Send { session, payload: <C as Codec<M::Request>>::to_bytes(request)? })
    }

    /// Applies an entry of the log. Its time is that of whoever put it into the log, and the same on every replica; one
    /// before that of the last entry counts as that.
    ///
    /// An entry that makes no sense ([`Input::check`]) is refused, and changes nothing at all.
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

    /// A client's request, in the order that the contract gives: kept, gone, or executed and kept.
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

    /// Executes a command. Bytes that are no command abort it, too: they would on every replica.
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

    /// Finds the session of a name, or makes it. One whose lease is over ends first.
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
        let mut requests = self.end(now, name, Ending::Expired).unwrap_or_default();
        let created = self.create(now, name, lease_ms, capabilities);
        let answer = created.and_then(|more| {
            requests.extend(more);
            self.opened(name)
        });
        Output { answer, requests }
    }

    /// Makes a session, where a former one of its name ended. If the machine's function fails there is none.
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

    /// Ends the session of a name. One whose lease is over was none any more, and was not ended by whoever says so.
    fn end_named(&mut self, now: Stamp, name: &Name, ending: Ending) -> Output {
        let was_live = self.core.sessions.live_entry(name, now).is_some();
        let ending = if was_live { ending } else { Ending::Expired };
        let requests = self.end(now, name, ending).unwrap_or_default();
        Output { answer: Ok(Answer::Ended(was_live)), requests }
    }

    fn expire_due(&mut self, now: Stamp, limit: usize) -> Output {
        let due = self.core.sessions.iter().filter(|(_, session)| !session.is_live(now));
        let mut due: Vec<Name> = due.map(|(name, _)| name.clone()).take(limit + 1).collect();
        let more = due.len() > limit;
        due.truncate(limit);
        let ended: Vec<_> =
            due.iter().filter_map(|name| self.end(now, name, Ending::Expired)).collect();
        let count = ended.len() as u64;
        let requests = ended.into_iter().flatten().collect();
        Output { answer: Ok(Answer::Expired { count, more }), requests }
    }

    /// Ends a session that is there; gives what the machine's function sends to others. If that fails the session goes
    /// all the same: it could never end otherwise.
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

/// Why a session ends.
#[derive(Clone, Copy)]
enum Ending {
    Closed,
    Expired,
}

impl<M: Clone, C> Clone for SessionMachine<M, C> {
    fn clone(&self) -> SessionMachine<M, C> {
        let (machine, core) = (self.machine.clone(), self.core.clone());
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

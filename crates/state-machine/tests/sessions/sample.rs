//! The user's machine of these tests. It counts, sends requests, fails in every possible way, and records the
//! executed commands.

use mainstay_model::{Code, Error, Name, Result, SessionRequest};
use mainstay_state_machine::*;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Once;

/// Names that are prefixes of each other, to detect errors that affect a neighbour.
pub const NAMES: [&str; 4] = ["a", "ab", "abc", "b"];
/// The session that the machine notifies about ended sessions.
pub const WATCHER: &str = "b";
pub const COUNTS: Table<u8, i64> = Table::new("count");
pub const VISITS: Table<String, u64> = Table::new("counts");
pub const GONE: &[u8] = b"counts";

pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// The number of the request in its session, only for the notes.
    pub id: u64,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// Adds to a counter.
    Add { key: u8, n: i64 },
    /// Adds to a counter, and returns an error response.
    Refuse { key: u8, n: i64 },
    /// Adds to a counter, reverts it, and returns an error response.
    Undo { key: u8, n: i64 },
    /// Adds to a counter, and returns an `Err`.
    Fail { key: u8, n: i64 },
    /// Adds to a counter, and panics.
    Panic { key: u8, n: i64 },
    /// Adds to a counter, sends a request to its caller, and returns a large response.
    Big { key: u8, bytes: usize },
    /// Adds to a counter, and sends a session this many requests.
    Tell { to: u8, times: u8 },
    /// Lists the live sessions.
    Who,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    Number(i64),
    Blob(Vec<u8>),
    Names(Vec<String>),
}

/// The number of executions of each request of each session.
pub type Notes = Rc<RefCell<BTreeMap<(String, u64), u32>>>;

#[derive(Clone, Default)]
pub struct Sample {
    pub notes: Notes,
}

pub type Machine = SessionMachine<Sample>;

fn add(state: &mut StateView<'_>, key: u8, n: i64) -> Result<i64> {
    let count = COUNTS.get(state, &key)?.unwrap_or(0) + n;
    COUNTS.put(state, &key, &count)?;
    Ok(count)
}

impl UserStateMachine for Sample {
    const NAME: &'static str = "sample";
    const VERSION: u32 = 3;
    type Command = Command;
    type Response = Said;
    type Request = i64;

    fn apply(
        &self,
        state: &mut StateView<'_>,
        context: &Context<'_>,
        command: Command,
    ) -> Result<Outcome<Said, i64>> {
        if let Some(caller) = context.caller() {
            let request = (caller.name().to_string(), command.id);
            *self.notes.borrow_mut().entry(request).or_default() += 1;
        }
        match command.what {
            What::Add { key, n } => Ok(Outcome::new(Said::Number(add(state, key, n)?))),
            What::Refuse { key, n } => Ok(Outcome::error(Said::Number(add(state, key, n)?))),
            What::Undo { key, n } => {
                let count = add(state, key, n)?;
                state.revert();
                Ok(Outcome::error(Said::Number(count)))
            }
            What::Fail { key, n } => {
                add(state, key, n)?;
                Err(Error::new(Code::Overflow, "it fails"))
            }
            What::Panic { key, n } => {
                add(state, key, n)?;
                panic!("as planned")
            }
            What::Big { key, bytes } => {
                let count = add(state, key, 1)?;
                let outcome = Outcome::new(Said::Blob(vec![7; bytes]));
                Ok(match context.caller() {
                    Some(caller) => outcome.send(caller.name(), count),
                    None => outcome,
                })
            }
            What::Tell { to, times } => {
                let to = name(NAMES[usize::from(to)]);
                let mut outcome = Outcome::new(Said::Number(0));
                for _ in 0..times {
                    outcome = outcome.send(&to, add(state, 200, 1)?);
                }
                outcome.response = Said::Number(i64::from(context.session(&to).is_some()));
                Ok(outcome)
            }
            What::Who => {
                let names = context.sessions().map(|session| session.name().to_string()).collect();
                Ok(Outcome::new(Said::Names(names)))
            }
        }
    }

    fn session_created(
        &self,
        state: &mut StateView<'_>,
        context: &Context<'_>,
    ) -> Result<Vec<Emitted<i64>>> {
        let caller = context.caller().unwrap();
        let who = caller.name().to_string();
        let visits = VISITS.get(state, &who)?.unwrap_or(0) + 1;
        VISITS.put(state, &who, &visits)?;
        match caller.capability("begin") {
            Some("greet") => {
                Ok(vec![Emitted { session: caller.name().clone(), request: visits as i64 }])
            }
            Some("panic") => panic!("as planned"),
            _ => Ok(Vec::new()),
        }
    }

    fn session_expired(
        &self,
        state: &mut StateView<'_>,
        context: &Context<'_>,
    ) -> Result<Vec<Emitted<i64>>> {
        let caller = context.caller().unwrap();
        let gone = state.get(GONE).map_or(0, |bytes| bytes[0]).wrapping_add(1);
        state.put(GONE, [gone])?;
        if caller.capability("end") == Some("panic") {
            panic!("as planned");
        }
        let tell = |session: &Name| Emitted { session: session.clone(), request: i64::from(gone) };
        Ok(vec![tell(&name(WATCHER)), tell(caller.name())])
    }
}

/// A sample machine with limits.
pub fn machine(limits: Limits) -> Machine {
    quiet();
    SessionMachine::with_limits(Sample::default(), limits).unwrap()
}

pub fn request(session: &str, id: u64, lowest: u64, what: What) -> Input {
    let request = SessionRequest::new(name(session), id, lowest);
    Machine::request(request, &Command { id, what }).unwrap()
}

pub fn open(session: &str, lease_ms: u64) -> Input {
    Input::Open { session: name(session), lease_ms: Some(lease_ms), capabilities: Vec::new() }
}

/// Decodes the response of a request.
pub fn said(output: &Output) -> Result<Said> {
    match &output.answer {
        Ok(Answer::Response(response)) => response.reply.decode::<Said, Postcard>(),
        Ok(other) => panic!("no response: {other:?}"),
        Err(error) => Err(error.clone()),
    }
}

/// Suppresses the output of planned panics.
pub fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.payload().downcast_ref::<&str>().copied();
            if text != Some("as planned") {
                usual(info);
            }
        }));
    });
}

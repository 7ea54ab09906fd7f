//! What does not agree with each other: each fault with the place it is at.

use std::fmt;

/// So many faults are told; the rest is counted.
const TOLD_LIMIT: usize = 100;

/// Something of a run, of a space of keyed state, of a session, or of the outbox, that does not agree with what it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The branch; `main` for sessions, which belong to the database as a whole.
    pub branch: String,
    /// The run; nothing when it is of the outbox and of no run.
    pub run: Option<String>,
    /// The space of keyed state, where it is of one.
    pub space: Option<String>,
    /// The session, where it is of one.
    pub session: Option<String>,
    /// The event of the run, or the message of the outbox.
    pub at: Option<u64>,
    /// What is wrong.
    pub what: String,
    /// What can be done.
    pub advice: &'static str,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.run, &self.space, &self.session) {
            (Some(run), ..) => write!(f, "Run `{run}` on branch `{}`", self.branch)?,
            (_, Some(space), _) => write!(f, "Space `{space}` on branch `{}`", self.branch)?,
            (_, _, Some(session)) => write!(f, "Session `{session}`")?,
            _ => write!(f, "Outbox of branch `{}`", self.branch)?,
        }
        match (&self.run, self.at) {
            (Some(_), Some(seq)) => write!(f, ", event {seq}")?,
            (None, Some(id)) => write!(f, ", message {id}")?,
            _ => {}
        }
        write!(f, ": {}. {}", self.what, self.advice)
    }
}

/// Faults as they are found: there may be many, so only the first ones are kept.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub told: Vec<Fault>,
    /// How many there were in all.
    pub all: u64,
    /// The branch that is being looked at.
    pub branch: String,
}

impl Faults {
    /// A fault of a run.
    pub fn run(&mut self, run: &str, seq: Option<u64>, what: String, advice: &'static str) {
        self.tell(Fault { run: Some(run.to_owned()), at: seq, ..self.fault(what, advice) });
    }

    /// A fault of the outbox.
    pub fn outbox(&mut self, id: Option<u64>, what: String, advice: &'static str) {
        self.tell(Fault { at: id, ..self.fault(what, advice) });
    }

    /// A fault of a space of keyed state.
    pub fn space(&mut self, space: &str, what: String, advice: &'static str) {
        self.tell(Fault { space: Some(space.to_owned()), ..self.fault(what, advice) });
    }

    /// A fault of a session.
    pub fn session(&mut self, session: &str, what: String, advice: &'static str) {
        self.tell(Fault { session: Some(session.to_owned()), ..self.fault(what, advice) });
    }

    fn fault(&self, what: String, advice: &'static str) -> Fault {
        let (run, space, session, at) = (None, None, None, None);
        Fault { branch: self.branch.clone(), run, space, session, at, what, advice }
    }

    fn tell(&mut self, fault: Fault) {
        self.all += 1;
        if self.told.len() < TOLD_LIMIT {
            self.told.push(fault);
        }
    }
}

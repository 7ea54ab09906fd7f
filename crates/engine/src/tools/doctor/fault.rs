//! Faults: inconsistencies found by the doctor, each with its location.

use std::fmt;

/// The most faults that are reported; further ones are only counted.
const TOLD_LIMIT: usize = 100;

/// An inconsistency of a run, a space of keyed state, a session or the outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The branch; `main` for sessions, which belong to the database as a whole.
    pub branch: String,
    /// The run; `None` if the fault is of the outbox and belongs to no run.
    pub run: Option<String>,
    /// The space of keyed state, if the fault is of a space.
    pub space: Option<String>,
    /// The session, if the fault is of a session.
    pub session: Option<String>,
    /// The event of the run, or the message of the outbox.
    pub at: Option<u64>,
    /// A description of the fault.
    pub what: String,
    /// The recommended repair.
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

/// Collects faults. Only the first ones are kept, because they may be many.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub told: Vec<Fault>,
    /// The number of all faults.
    pub all: u64,
    /// The branch that is being checked.
    pub branch: String,
}

impl Faults {
    /// Adds a fault of a run.
    pub fn run(&mut self, run: &str, seq: Option<u64>, what: String, advice: &'static str) {
        self.tell(Fault { run: Some(run.to_owned()), at: seq, ..self.fault(what, advice) });
    }

    /// Adds a fault of the outbox.
    pub fn outbox(&mut self, id: Option<u64>, what: String, advice: &'static str) {
        self.tell(Fault { at: id, ..self.fault(what, advice) });
    }

    /// Adds a fault of a space of keyed state.
    pub fn space(&mut self, space: &str, what: String, advice: &'static str) {
        self.tell(Fault { space: Some(space.to_owned()), ..self.fault(what, advice) });
    }

    /// Adds a fault of a session.
    pub fn session(&mut self, session: &str, what: String, advice: &'static str) {
        self.tell(Fault { session: Some(session.to_owned()), ..self.fault(what, advice) });
    }

    fn fault(&self, what: String, advice: &'static str) -> Fault {
        let run = None;
        let space = None;
        let session = None;
        let at = None;
        Fault { branch: self.branch.clone(), run, space, session, at, what, advice }
    }

    fn tell(&mut self, fault: Fault) {
        self.all += 1;
        if self.told.len() < TOLD_LIMIT {
            self.told.push(fault);
        }
    }
}

//! State machine of a job: the states, and the table of allowed transitions.
//!
//! ```text
//!             dependencies complete      claim          step
//!   blocked ------------------> pending -----> claimed -----> running
//!      |                        ^  |  ^           |              |
//!      |                  retry |  |  '-----------+--------------+   fail with retry, sweep
//!      |                        |  |              |              |
//!      |                        |  |              +--> completed <   complete
//!      |                      failed <------------+--------------+   fail, sweep
//!      '--> cancelled <------------'--------------+--------------'   cancel
//! ```

use mainstay::{Code, Error, Result};
use std::fmt;

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Can be claimed, now or from its `run_at` on.
    Pending,
    /// Held by a worker that has not reported a step yet.
    Claimed,
    /// Held by a worker that has reported a step.
    Running,
    /// Completed successfully.
    Completed,
    /// Failed, and not retried automatically.
    Failed,
    /// Cancelled by a caller.
    Cancelled,
    /// Waits for its dependencies.
    Blocked,
}

use State::{Blocked, Cancelled, Claimed, Completed, Failed, Pending, Running};

/// All states.
pub const STATES: [State; 7] = [Pending, Claimed, Running, Completed, Failed, Cancelled, Blocked];

/// The allowed transitions from each state.
const TRANSITIONS: [(State, &[State]); 7] = [
    (Blocked, &[Pending, Cancelled]),
    (Pending, &[Claimed, Cancelled]),
    (Claimed, &[Running, Completed, Failed, Pending, Cancelled]),
    (Running, &[Running, Completed, Failed, Pending, Cancelled]),
    (Failed, &[Pending]),
    (Cancelled, &[Pending, Blocked]),
    (Completed, &[]),
];

impl State {
    /// The word stored in the record.
    pub fn as_str(self) -> &'static str {
        match self {
            Pending => "pending",
            Claimed => "claimed",
            Running => "running",
            Completed => "completed",
            Failed => "failed",
            Cancelled => "cancelled",
            Blocked => "blocked",
        }
    }

    /// Parses the word of a state. Fails with `UnknownState`.
    pub fn parse(word: &str) -> Result<State> {
        STATES.into_iter().find(|state| state.as_str() == word).ok_or_else(|| {
            let known = STATES.map(State::as_str).join(", ");
            let message = format!("`{word}` is no state of a job: there are {known}");
            Error::new(Code::UnknownState, message)
        })
    }

    /// Returns whether the transition table allows a change to `other`.
    pub fn may_become(self, other: State) -> bool {
        TRANSITIONS.iter().any(|(from, into)| *from == self && into.contains(&other))
    }

    /// Returns whether a worker holds the job.
    pub fn is_held(self) -> bool {
        matches!(self, Claimed | Running)
    }

    /// Returns whether the job stays in this state unless a caller retries it.
    pub fn is_terminal(self) -> bool {
        matches!(self, Completed | Failed | Cancelled)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_found_by_its_word_and_nothing_else_is() {
        for state in STATES {
            assert_eq!(State::parse(state.as_str()).unwrap(), state);
        }
        for word in ["", "Pending", "done", "pending "] {
            assert_eq!(State::parse(word).unwrap_err().code(), Code::UnknownState);
        }
    }

    #[test]
    fn what_is_completed_stays_so_and_nothing_is_claimed_but_what_is_pending() {
        for state in STATES {
            assert!(!Completed.may_become(state));
            assert_eq!(state.may_become(Claimed), state == Pending);
            assert_eq!(state.may_become(Completed), state.is_held());
        }
    }
}

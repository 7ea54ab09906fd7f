//! The states of a job, and the one table of how it gets from one into another.
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

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// It can be claimed, now or from its `run_at` on.
    Pending,
    /// A worker has it and has not said more.
    Claimed,
    /// A worker has it and has done a step.
    Running,
    /// It is done.
    Completed,
    /// It did not succeed, and nobody tries again by itself.
    Failed,
    /// Somebody called it off.
    Cancelled,
    /// It waits for jobs that it depends on.
    Blocked,
}

use State::{Blocked, Cancelled, Claimed, Completed, Failed, Pending, Running};

/// Every state.
pub const STATES: [State; 7] = [Pending, Claimed, Running, Completed, Failed, Cancelled, Blocked];

/// Into which states a job may get from each.
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
    /// The word that stands in the record.
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

    /// The state that a word names.
    pub fn parse(word: &str) -> Result<State> {
        STATES.into_iter().find(|state| state.as_str() == word).ok_or_else(|| {
            let known = STATES.map(State::as_str).join(", ");
            let message = format!("`{word}` is no state of a job: there are {known}");
            Error::new(Code::UnknownState, message)
        })
    }

    /// Whether a job may get from this state into another.
    pub fn may_become(self, other: State) -> bool {
        TRANSITIONS.iter().any(|(from, into)| *from == self && into.contains(&other))
    }

    /// Whether a worker has it.
    pub fn is_held(self) -> bool {
        matches!(self, Claimed | Running)
    }

    /// Whether it stays so unless somebody retries it.
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

//! Detects reused request numbers: checks whether a stored answer of a session request fits the request.

use mainstay::{Answer, Code, Command, Error, Receipt, Result, SessionRequest, Step, Transaction};

/// The expected kinds of answers to a session request. A request is identified by its number alone. If the
/// number was used for another request before, its stored answer may be of a kind that the caller cannot
/// return.
pub(crate) struct Expected {
    request: SessionRequest,
    is_guarded: bool,
    steps: Vec<About>,
    otherwise: Vec<About>,
}

/// The kind of answer that a command gives.
#[derive(Clone, Copy, PartialEq)]
enum About {
    Values,
    Records,
    Runs,
    Outbox,
    States,
    Sessions,
    Others,
}

impl Expected {
    /// Returns the expectation for a session request; `None` for other transactions.
    pub fn of(transaction: &Transaction) -> Option<Expected> {
        let request = transaction.session()?.clone();
        let about = |step: &Step| about(&step.command);
        Some(Expected {
            request,
            is_guarded: !transaction.guards.is_empty(),
            steps: transaction.steps.iter().map(about).collect(),
            otherwise: transaction.otherwise.iter().flatten().map(about).collect(),
        })
    }

    /// Returns the receipt if it can belong to this request.
    pub fn met_by(&self, receipt: Receipt) -> Result<Receipt> {
        if self.is_met_by(&receipt) { Ok(receipt) } else { Err(self.another()) }
    }

    /// Returns whether the receipt can belong to this request.
    pub fn is_met_by(&self, receipt: &Receipt) -> bool {
        let expected = if receipt.held { &self.steps } else { &self.otherwise };
        let fits = |(about, answer): (&About, &Answer)| is_about(answer, *about);
        let as_many = expected.len() == receipt.answers.len();
        let may_fail = receipt.held || self.is_guarded;
        !receipt.repeated || may_fail && as_many && expected.iter().zip(&receipt.answers).all(fits)
    }

    #[cold]
    fn another(&self) -> Error {
        let SessionRequest { session, request_id, .. } = &self.request;
        let message = format!(
            "request {request_id} of session `{session}` was another one, and this one was not executed: send it with a \
             number of its own"
        );
        Error::new(Code::RequestReused, message)
    }
}

fn about(command: &Command) -> About {
    match command {
        Command::Cell(_) | Command::String(_) => About::Values,
        Command::Record(_) | Command::Hash(_) => About::Records,
        Command::Run(_) => About::Runs,
        Command::Outbox(_) => About::Outbox,
        Command::State(_) => About::States,
        Command::Session(_) => About::Sessions,
        _ => About::Others,
    }
}

/// Returns whether an answer can belong to a command of this kind. Some answers, such as counts, fit
/// several kinds.
fn is_about(answer: &Answer, about: About) -> bool {
    match answer {
        Answer::Cell(_) | Answer::Number { .. } | Answer::Replaced { .. } | Answer::History(_) => {
            about == About::Values
        }
        Answer::Counter(_) | Answer::MaybeCounter(_) => {
            matches!(about, About::Values | About::Records)
        }
        Answer::Record(_)
        | Answer::Records(_)
        | Answer::Sum(_)
        | Answer::Picked(_)
        | Answer::RecordHistory(_) => about == About::Records,
        Answer::Run(_) => about == About::Runs,
        Answer::Outbox(_) => about == About::Outbox,
        Answer::State(_) => about == About::States,
        Answer::Session(_) => about == About::Sessions,
        Answer::Revision(_) => about == About::Others,
        _ => true,
    }
}

//! Requests of sessions that were sent before: whether what was answered then is an answer to this.

use mainstay::{Answer, Code, Command, Error, Receipt, Result, SessionRequest, Step, Transaction};

/// What the answers to a request of a session are about. Its number says which request it is, whatever it asks for: one
/// that was used for something else before is answered with what that was, which no route could show.
pub(crate) struct Expected {
    request: SessionRequest,
    is_guarded: bool,
    steps: Vec<About>,
    otherwise: Vec<About>,
}

/// What a command is about, as far as its answer shows it.
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
    /// Of a request of a session.
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

    /// The receipt, if it can be this request's.
    pub fn met_by(&self, receipt: Receipt) -> Result<Receipt> {
        match self.is_met_by(&receipt) {
            true => Ok(receipt),
            false => Err(self.another()),
        }
    }

    /// Whether the receipt can be this request's.
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

/// Whether an answer can be one to a command about this. Counts and the like are answers to many.
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

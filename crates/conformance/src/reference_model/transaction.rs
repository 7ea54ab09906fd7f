//! Transactions in the reference model: guards, steps and `otherwise`, all or nothing.

use super::run::Run;
use super::versions::Versions;
use super::{Moment, Oracle, State, cells};
use mainstay_model::{
    Answer, Code, Command, Contract, Demand, Error, ErrorKind, Guard, Receipt, Result, Revision,
    Stamp, Step, Transaction,
};

impl Oracle {
    /// Executes a transaction. On failure nothing changes.
    pub fn execute(&mut self, transaction: &Transaction) -> Result<Receipt> {
        if let Some(earlier) = transaction.named().and_then(|id| self.receipts.get(id)) {
            return Ok(Receipt { repeated: true, ..earlier.clone() });
        }
        let receipt = match transaction.steps.as_slice() {
            [Step { command: Command::Branch(command), .. }] => self.branch_command(command)?,
            _ => self.data_transaction(transaction)?,
        };
        if let Some(id) = transaction.named() {
            self.receipts.insert(id.clone(), receipt.clone());
        }
        Ok(receipt)
    }

    /// Executes commands that fail independently, `joined` in one transaction or each in its own.
    pub fn batch(
        &mut self,
        branch: &str,
        commands: &[Command],
        joined: bool,
    ) -> Vec<Result<Answer>> {
        if joined {
            return self.joined(branch, commands);
        }
        let alone = |command: &Command| {
            let transaction = Transaction::on(branch).step(command.clone());
            self.execute(&transaction).map(|receipt| receipt.answers[0].clone())
        };
        commands.iter().map(alone).collect()
    }

    fn joined(&mut self, branch: &str, commands: &[Command]) -> Vec<Result<Answer>> {
        let id = match self.id(branch) {
            Ok(id) => id,
            Err(error) => return commands.iter().map(|_| Err(error.clone())).collect(),
        };
        let stamp = self.next_stamp();
        let mut copy = self.lines[&id].state.clone();
        let mut run = Run::new(&mut copy, self.revision + 1, stamp, id);
        let answers = commands.iter().map(|command| run.command(command)).collect();
        if run.wrote {
            self.committed(stamp);
            self.line_mut(id).state = copy;
        }
        answers
    }

    fn data_transaction(&mut self, transaction: &Transaction) -> Result<Receipt> {
        let id = self.id(&transaction.branch)?;
        if transaction.branch_id.is_some_and(|expected| expected != id) {
            return Err(Error::new(Code::Conflict, "the branch is another one now"));
        }
        let stamp = self.next_stamp();
        let mut copy = self.lines[&id].state.clone();
        let mut run = Run::new(&mut copy, self.revision + 1, stamp, id);
        let held = transaction.guards.iter().all(|g| holds(g, run.state, run.moment()));
        let answers = match (&transaction.otherwise, held) {
            (_, true) => steps(&mut run, &transaction.steps)?,
            (Some(otherwise), false) => steps(&mut run, otherwise)?,
            (None, false) => return Err(Error::new(Code::GuardFailed, "a guard does not hold")),
        };
        // A transaction with a request ID commits even without a write, so that a retry finds its
        // receipt.
        if run.wrote || transaction.request.is_some() {
            self.committed(stamp);
            self.line_mut(id).state = copy;
        }
        let answers = answers.into_iter().collect();
        Ok(Receipt { revision: self.revision, stamp, held, repeated: false, answers })
    }
}

fn steps(run: &mut Run<'_>, steps: &[Step]) -> Result<Vec<Answer>> {
    let one = |(position, step): (usize, &Step)| {
        one_step(run, step).map_err(|error| error.at_position(position))
    };
    steps.iter().enumerate().map(one).collect()
}

fn one_step(run: &mut Run<'_>, step: &Step) -> Result<Answer> {
    // A failing command needs no rollback, because in this model it fails before it writes.
    match (run.command(&step.command), step.demand) {
        (Err(error), Demand::Nothing) if is_its_own(&error) => Ok(Answer::Failed(error)),
        (Ok(answer), Demand::Effect) if !answer.took_effect() => {
            Err(Error::new(Code::MustFailed, "it had to take effect"))
        }
        (answer, _) => answer,
    }
}

/// Returns whether an error concerns only its command and not the whole transaction.
fn is_its_own(error: &Error) -> bool {
    use ErrorKind::{Exists, Fenced, Invalid, NotFound, WrongType};
    matches!(error.kind(), Invalid | Fenced | WrongType | NotFound | Exists)
        || matches!(error.code(), Code::ValueTooLarge | Code::ValueTooDeep | Code::SequenceMoved)
}

/// Returns whether a guard holds at a moment.
fn holds(guard: &Guard, state: &State, moment: Moment) -> bool {
    let State { cells, records, logs, outbox, .. } = state;
    match guard {
        Guard::Counter { name, is } => {
            cells.live(name.as_str(), moment).map(|version| version.counter) == *is
        }
        Guard::Value { name, is } => cells.value(name.as_str(), moment) == *is,
        Guard::Record { key, is } => {
            records.live(key.as_str(), moment).map(|version| version.counter) == *is
        }
        Guard::Field { key, field, is } => {
            let fields = records.value(key.as_str(), moment).unwrap_or_default();
            fields.get(field.as_bytes()) == is.as_deref()
        }
        Guard::Unchanged { contract, name, since, expires } => {
            let unwritten = match contract {
                Contract::Records => records.unwritten(name.as_str(), *since, moment.revision),
                Contract::Runs => logs.unwritten(name.as_str(), *since, moment.revision),
                Contract::Outbox => {
                    name.as_str().parse().is_ok_and(|id| outbox.untouched(id, *since))
                }
                _ => cells.unwritten(name.as_str(), *since, moment.revision),
            };
            unwritten && alive(*expires, moment)
        }
        Guard::Event { run, key, is } => {
            let log = logs.value(run.as_str(), moment);
            log.and_then(|log| log.of_key(key).map(|event| event.run_seq)) == *is
        }
        Guard::RangeUnchanged { contract, prefix, after, upto, since, expires } => {
            let inside =
                |name: &str| cells::in_range(name, prefix, after.as_deref(), upto.as_deref());
            let unwritten = match contract {
                Contract::Records => none_written(records, inside, *since, moment),
                Contract::Runs => none_written(logs, inside, *since, moment),
                _ => none_written(cells, inside, *since, moment),
            };
            unwritten && alive(*expires, moment)
        }
        _ => false,
    }
}

fn alive(expires: Option<Stamp>, moment: Moment) -> bool {
    expires.is_none_or(|at| at > moment.now)
}

fn none_written<T: Clone>(
    versions: &Versions<T>,
    inside: impl Fn(&str) -> bool,
    since: Revision,
    moment: Moment,
) -> bool {
    let mut names = versions.names().filter(|name| inside(name));
    names.all(|name| versions.unwritten(name, since, moment.revision))
}

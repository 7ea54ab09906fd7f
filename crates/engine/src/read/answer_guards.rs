//! Guards that keep the provisional answers of an open transaction's writes valid until commit.
//!
//! ```text
//!   append -> "new, called e"      guarded: the run has no event with its key; the executed step uses the name e, too
//!   append -> "it is event 17"     guarded: the event with its key is 17
//!   ack 5  -> "it was acked"       guarded: message 5
//! ```
//!
//! The caller may act on an answer: it may name e as the cause of the next event, or skip work that was
//! done before. A write of another transaction that changes the basis of an answer makes the commit a
//! conflict. Counters, sequence numbers of new events, times and numbers of new messages are assigned
//! at commit. So concurrent appends do not conflict.

use crate::apply::outbox;
use mainstay_model::{
    Answer, Appended, CellCommand, Command, Contract, Name, NewEvent, OutboxCommand, RecordCommand,
    Result, RunAnswer, RunCommand, SmallVec, StringCommand,
};

/// Returns the names that the answer of a command depends on. The answer of a blind write depends on
/// nothing: only its counter is in it, which is provisional. Redis commands reveal whether a name is a
/// cell or a record.
pub(crate) fn guards_for_answer(command: &Command) -> Result<SmallVec<[(Contract, Name); 2]>> {
    let both = |name: &Name| [(Contract::Cells, name.clone()), (Contract::Records, name.clone())];
    Ok(match command {
        Command::Cell(CellCommand::Set { .. } | CellCommand::Restore { .. }) => SmallVec::new(),
        Command::Cell(command) => {
            command.name().map(|name| (Contract::Cells, name.clone())).into_iter().collect()
        }
        Command::String(StringCommand::SetAll { pairs, only_absent: true }) => {
            pairs.iter().flat_map(|(name, _)| both(name)).collect()
        }
        Command::String(StringCommand::Put { .. }) => SmallVec::new(),
        Command::String(command) => command.name().into_iter().flat_map(both).collect(),
        Command::Record(RecordCommand::Write(write)) if write.is_blind() => SmallVec::new(),
        Command::Record(RecordCommand::Restore { .. }) => SmallVec::new(),
        Command::Record(command) => {
            command.key().map(|key| (Contract::Records, key.clone())).into_iter().collect()
        }
        Command::Hash(command) => both(command.key()).into_iter().collect(),
        // A caller that stores a reducer's state retries if another caller has stored a later one.
        Command::Run(RunCommand::Keep { .. }) => SmallVec::new(),
        // The answer depends on this event only. A caller that needs a certain position sets
        // `expected`.
        Command::Run(RunCommand::Append { expected: None, .. }) => SmallVec::new(),
        // The head of a run changes with every event.
        Command::Run(command) => match command.run() {
            Some(run) => [(Contract::Runs, Name::new(run)?)].into_iter().collect(),
            None => SmallVec::new(),
        },
        Command::Outbox(command) => messages(command)
            .iter()
            .map(|id| Ok((Contract::Outbox, outbox::name(*id)?)))
            .collect::<Result<_>>()?,
        _ => SmallVec::new(),
    })
}

/// Returns the messages whose state a command's answer depends on.
fn messages(command: &OutboxCommand) -> &[u64] {
    match command {
        OutboxCommand::Ack { ids } | OutboxCommand::AckHeld { ids, .. } => ids,
        OutboxCommand::Fail { id, .. }
        | OutboxCommand::FailHeld { id, .. }
        | OutboxCommand::Replay { id } => std::slice::from_ref(id),
        _ => &[],
    }
}

/// Returns the event, by run and key, whose position a command's answer reveals.
pub(crate) fn event(command: &Command) -> Result<Option<(Name, String)>> {
    match command {
        Command::Run(RunCommand::Append { event, expected: None }) => {
            Ok(Some((Name::new(&event.run_id)?, event.key()?)))
        }
        _ => Ok(None),
    }
}

/// Returns the command with the ids that its answer assigned, so that new events keep the names their
/// producer has seen.
pub(crate) fn pin_assigned_ids(mut command: Command, answer: &Answer) -> Command {
    if let (Command::Run(command), Answer::Run(answer)) = (&mut command, answer) {
        match (command, answer.as_ref()) {
            (RunCommand::Append { event, .. }, RunAnswer::Appended(told)) => call(event, told),
            (RunCommand::Bootstrap { events, .. }, RunAnswer::AppendedAll(told)) => {
                events.iter_mut().zip(told).for_each(|(event, told)| call(event, told));
            }
            _ => {}
        }
    }
    command
}

fn call(event: &mut NewEvent, told: &Appended) {
    if told.persisted {
        event.event_id.get_or_insert_with(|| told.event_id.clone());
    }
}

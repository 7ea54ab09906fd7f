//! What an open transaction tells its caller of commands that write, and how that stays true until the commit.
//!
//! ```text
//!   append -> "new, called e"      guarded: the run has no event with its key; the step that is executed calls it e, too
//!   append -> "it is event 17"     guarded: the event with its key is 17
//!   ack 5  -> "it was there"       guarded: message 5
//! ```
//!
//! The caller may act on an answer: name e as the cause of the next event, or leave out what was done before. Whoever
//! changes what it rests on makes the commit a conflict. Counters, sequences of new events, times and the numbers of
//! new messages come with the commit: others may append, and conflict with nobody.

use crate::apply::outbox;
use mainstay_model::{
    Answer, Appended, CellCommand, Command, Contract, Name, NewEvent, OutboxCommand, RecordCommand,
    Result, RunAnswer, RunCommand, SmallVec, StringCommand,
};

/// What the answer of a command tells something of; a blind write tells nothing but its counter, which
/// is provisional. Redis's commands tell whether a name is a cell or a record.
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
        // Whoever keeps a reducer's state comes again if somebody else has kept a later one.
        Command::Run(RunCommand::Keep { .. }) => SmallVec::new(),
        // It tells of its event alone; where the run is matters to whoever expects it somewhere.
        Command::Run(RunCommand::Append { expected: None, .. }) => SmallVec::new(),
        // A run's head changes with every event.
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

/// The messages whose standing a command tells.
fn messages(command: &OutboxCommand) -> &[u64] {
    match command {
        OutboxCommand::Ack { ids } | OutboxCommand::AckHeld { ids, .. } => ids,
        OutboxCommand::Fail { id, .. }
        | OutboxCommand::FailHeld { id, .. }
        | OutboxCommand::Replay { id } => std::slice::from_ref(id),
        _ => &[],
    }
}

/// The event whose place in its run a command tells.
pub(crate) fn event(command: &Command) -> Result<Option<(Name, String)>> {
    match command {
        Command::Run(RunCommand::Append { event, expected: None }) => {
            Ok(Some((Name::new(&event.run_id)?, event.key()?)))
        }
        _ => Ok(None),
    }
}

/// The command with what was told of it: new events keep the names that their producer heard.
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

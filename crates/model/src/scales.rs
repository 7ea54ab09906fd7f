//! Memory accounting of answers and commands. All answers of a transaction are in memory together, so their
//! sum is limited.

use crate::limits::ANSWERS_LIMIT_BYTES;
use crate::{
    Answer, CanonicalEvent, CellCommand, Code, Command, Condition, Error, Field, FieldValue,
    Fields, HashCommand, HistoryEntry, Name, NewEvent, Only, OutboxCommand, Page, Record,
    RecordCommand, RecordHistoryEntry, RecordPage, RecordPick, RunCommand, SessionCommand,
    StateCommand, StateKey, StateWrite, StringCommand, Test, Value, Version, Where,
};

/// Sums the sizes of gathered answers and enforces the limit.
///
/// ```
/// use mainstay_model::{Answer, Scales, Value, Versioned};
/// let value = Value::Bytes(vec![0; 16 << 20]);
/// let cell = Answer::Cell(Some(Versioned { value, counter: 1, stamp: 1, revision: 1, expires: None }));
/// let mut scales = Scales::default();
/// assert!((0..7).all(|_| scales.add(&cell).is_ok()));
/// assert!((0..7).any(|_| scales.add(&cell).is_err()));
/// ```
#[derive(Debug, Default)]
pub struct Scales {
    bytes: usize,
}

impl Scales {
    /// Adds an answer. Fails if the sum exceeds the limit.
    pub fn add(&mut self, answer: &Answer) -> Result<(), Error> {
        self.put(answer.weight_bytes())
    }

    /// Adds a value, such as that of a version in a history.
    pub fn add_value(&mut self, value: Option<&Value>) -> Result<(), Error> {
        self.put(value.map_or(0, Value::weight_bytes))
    }

    /// Adds a record.
    pub fn add_record(&mut self, record: &Record) -> Result<(), Error> {
        self.put(record.fields.weight_bytes())
    }

    /// Adds a version of a record's history.
    pub fn add_fields(&mut self, fields: Option<&Fields>) -> Result<(), Error> {
        self.put(fields.map_or(0, Fields::weight_bytes))
    }

    /// Adds this many bytes.
    pub fn add_bytes(&mut self, bytes: usize) -> Result<(), Error> {
        self.put(bytes)
    }

    /// Adds an event of a run.
    pub fn add_event(&mut self, event: &CanonicalEvent) -> Result<(), Error> {
        self.put(event.weight_bytes())
    }

    fn put(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes += size_of::<Answer>() + bytes;
        if self.bytes > ANSWERS_LIMIT_BYTES { Err(too_much()) } else { Ok(()) }
    }
}

impl Answer {
    /// The approximate memory that the answer's content takes, in bytes.
    pub fn weight_bytes(&self) -> usize {
        match self {
            Answer::Cell(Some(cell)) => cell.value.weight_bytes(),
            Answer::Replaced { old: Some(old), .. } => old.weight_bytes(),
            Answer::Names(Page { names, .. }) => {
                names.iter().map(|name| size_of::<String>() + name.len()).sum()
            }
            Answer::Record(Some(record)) => record.fields.weight_bytes(),
            Answer::Picked(Some(picked)) => picked.1.fields.weight_bytes(),
            Answer::Records(RecordPage { records, .. }) => {
                let one = |(key, record): &(String, Record)| {
                    size_of::<Record>() + key.len() + record.fields.weight_bytes()
                };
                records.iter().map(one).sum()
            }
            Answer::Run(answer) => answer.weight_bytes(),
            Answer::Outbox(answer) => answer.weight_bytes(),
            Answer::State(answer) => answer.weight_bytes(),
            Answer::Session(answer) => answer.weight_bytes(),
            Answer::History(versions) => {
                let one = |entry: &HistoryEntry| {
                    size_of::<HistoryEntry>() + entry.value.as_ref().map_or(0, Value::weight_bytes)
                };
                versions.iter().map(one).sum()
            }
            Answer::RecordHistory(versions) => {
                let one = |entry: &RecordHistoryEntry| {
                    let fields = entry.fields.as_ref().map_or(0, Fields::weight_bytes);
                    size_of::<RecordHistoryEntry>() + fields
                };
                versions.iter().map(one).sum()
            }
            _ => 0,
        }
    }
}

impl Command {
    /// The approximate memory that the command takes with its content, in bytes.
    ///
    /// ```
    /// use mainstay_model::{CellCommand, Command, Name, Value};
    /// let ones = Value::Array(vec![Value::Int(1); 1000]);
    /// let set: Command = CellCommand::set(Name::new("a")?, ones).into();
    /// assert!(set.weight_bytes() > 16_000, "a list of numbers takes more than its text");
    /// # Ok::<(), mainstay_model::Error>(())
    /// ```
    pub fn weight_bytes(&self) -> usize {
        let held = match self {
            Command::Cell(command) => cell_bytes(command),
            Command::String(command) => string_bytes(command),
            Command::Record(command) => record_bytes(command),
            Command::Hash(command) => hash_bytes(command),
            Command::Run(command) => run_bytes(command),
            Command::Outbox(
                OutboxCommand::Put { subject, payload, .. }
                | OutboxCommand::Restore { subject, payload, .. },
            ) => subject.len() + payload.len(),
            Command::Outbox(OutboxCommand::Ack { ids } | OutboxCommand::AckHeld { ids, .. }) => {
                ids.len() * size_of::<u64>()
            }
            Command::Outbox(
                OutboxCommand::Fail { message, .. } | OutboxCommand::FailHeld { message, .. },
            ) => message.len(),
            Command::State(command) => state_bytes(command),
            Command::Session(
                SessionCommand::Send { payload, .. } | SessionCommand::Restore { payload, .. },
            ) => payload.len(),
            _ => 0,
        };
        size_of::<Command>() + held
    }
}

fn cell_bytes(command: &CellCommand) -> usize {
    let value = match command {
        CellCommand::Init { value, .. }
        | CellCommand::Set { value, .. }
        | CellCommand::Cas { value, .. }
        | CellCommand::Restore { value: Some(value), .. } => value.weight_bytes(),
        CellCommand::List { prefix, after, .. } => {
            prefix.len() + after.as_ref().map_or(0, String::len)
        }
        _ => 0,
    };
    value + command.name().map_or(0, |name| name.as_str().len())
}

fn string_bytes(command: &StringCommand) -> usize {
    let only = |only: &Only| match only {
        Only::Equals(value) | Only::Differs(value) => value.weight_bytes(),
        _ => 0,
    };
    let held = match command {
        StringCommand::Set { value, only: when, .. }
        | StringCommand::Swap { value, only: when, .. } => value.weight_bytes() + only(when),
        StringCommand::Put { value, .. } => value.weight_bytes(),
        StringCommand::SetAll { pairs, .. } => {
            let pair = |(name, value): &(Name, Value)| {
                size_of::<(Name, Value)>() + name.as_str().len() + value.weight_bytes()
            };
            pairs.iter().map(pair).sum()
        }
        StringCommand::Append { text, .. } => text.len(),
        StringCommand::AddFloat { by, .. } => by.len(),
        _ => 0,
    };
    held + command.name().map_or(0, |name| name.as_str().len())
}

/// The size of the fields that a write sets and clears.
fn change_bytes(set: &[(Field, FieldValue)], clear: &[Field]) -> usize {
    let value = |(field, value): &(Field, FieldValue)| {
        let held = if let FieldValue::Bytes(bytes) = value { bytes.len() } else { 0 };
        size_of::<(Field, FieldValue)>() + field.as_bytes().len() + held
    };
    set.iter().map(value).sum::<usize>() + fields_bytes(clear)
}

fn fields_bytes(fields: &[Field]) -> usize {
    fields.iter().map(|field| size_of::<Field>() + field.as_bytes().len()).sum()
}

fn conditions_bytes(conditions: &[Condition]) -> usize {
    let one = |condition: &Condition| {
        let held = match condition {
            Condition::Field { is: Some(is), .. } | Condition::Fence { is, .. } => is.len(),
            _ => 0,
        };
        size_of::<Condition>() + held + condition.field().map_or(0, |field| field.as_bytes().len())
    };
    conditions.iter().map(one).sum()
}

fn record_bytes(command: &RecordCommand) -> usize {
    match command {
        RecordCommand::Write(write) => {
            let key = write.key.as_str().len();
            key + conditions_bytes(&write.when) + change_bytes(&write.set, &write.clear)
        }
        RecordCommand::Delete { key, when } => key.as_str().len() + conditions_bytes(when),
        RecordCommand::Restore { key, fields, .. } => {
            key.as_str().len() + fields.as_ref().map_or(0, Fields::weight_bytes)
        }
        RecordCommand::Get { key, fields } => {
            key.as_str().len() + fields.as_ref().map_or(0, |fields| fields_bytes(fields))
        }
        RecordCommand::Pick(pick) => {
            let RecordPick { prefix, filters, set, clear, .. } = &**pick;
            size_of::<RecordPick>()
                + prefix.len()
                + filters_bytes(filters)
                + change_bytes(set, clear)
        }
        RecordCommand::Scan { prefix, filters, after, .. } => {
            prefix.len() + filters_bytes(filters) + after.as_ref().map_or(0, String::len)
        }
        RecordCommand::Count { prefix, filters } => prefix.len() + filters_bytes(filters),
        _ => 0,
    }
}

fn filters_bytes(filters: &[Where]) -> usize {
    let one = |filter: &Where| {
        let bounds = match &filter.test {
            Test::Eq(bound)
            | Test::Ne(bound)
            | Test::Lt(bound)
            | Test::Le(bound)
            | Test::Gt(bound)
            | Test::Ge(bound) => bound.len(),
            Test::In(bounds) => bounds.iter().map(|bound| size_of::<Vec<u8>>() + bound.len()).sum(),
        };
        size_of::<Where>() + filter.field.as_bytes().len() + bounds
    };
    filters.iter().map(one).sum()
}

fn hash_bytes(command: &HashCommand) -> usize {
    let held = match command {
        HashCommand::Set { pairs, .. } => {
            let pair = |(field, value): &(Field, Vec<u8>)| {
                size_of::<(Field, Vec<u8>)>() + field.as_bytes().len() + value.len()
            };
            pairs.iter().map(pair).sum()
        }
        HashCommand::Delete { fields, .. } | HashCommand::Get { fields: Some(fields), .. } => {
            fields_bytes(fields)
        }
        _ => 0,
    };
    held + command.key().as_str().len()
}

fn event_bytes(event: &NewEvent) -> usize {
    let texts = [
        &event.event_id,
        &event.step_id,
        &event.engine_attempt_id,
        &event.logical_attempt_id,
        &event.plan_version,
        &event.plan_id,
        &event.idempotency_key,
        &event.adapter_version,
        &event.caused_by_signal_id,
        &event.parent_event_id,
    ];
    let texts: usize = texts.into_iter().flatten().map(String::len).sum();
    let more = event.more.iter().map(|(name, value)| name.len() + value.weight_bytes());
    size_of::<NewEvent>()
        + event.run_id.len()
        + event.event_type.len()
        + texts
        + event.event_data.weight_bytes()
        + event.engine_run_ref.as_ref().map_or(0, Value::weight_bytes)
        + event.message.as_ref().map_or(0, |message| message.subject.len() + message.payload.len())
        + more.sum::<usize>()
}

fn run_bytes(command: &RunCommand) -> usize {
    match command {
        RunCommand::Append { event, .. } => event_bytes(event),
        RunCommand::Bootstrap { metadata, events, .. } => {
            metadata.weight_bytes() + events.iter().map(event_bytes).sum::<usize>()
        }
        RunCommand::Restore { metadata, events, .. }
        | RunCommand::RestoreHidden { metadata, events, .. } => {
            metadata.as_ref().map_or(0, Value::weight_bytes)
                + events.iter().map(CanonicalEvent::weight_bytes).sum::<usize>()
        }
        RunCommand::Keep { state, .. } => state.weight_bytes(),
        _ => 0,
    }
}

fn state_bytes(command: &StateCommand) -> usize {
    let write = |write: &StateWrite| {
        let held = match write {
            StateWrite::Put { key, value, .. } => key.len() + value.len(),
            StateWrite::Delete { key, .. } => key.len(),
            StateWrite::Append { key, id, item } => key.len() + id.len() + item.len(),
            StateWrite::Merge { key, value, settles, .. } => {
                key.len()
                    + value.as_ref().map_or(0, Vec::len)
                    + settles.len() * size_of::<Version>()
            }
            _ => 0,
        };
        size_of::<StateWrite>() + held
    };
    match command {
        StateCommand::Write { writes, .. } => writes.iter().map(write).sum(),
        StateCommand::Restore { block, .. }
        | StateCommand::Take { block, .. }
        | StateCommand::Replay { block, .. } => block.as_bytes().len(),
        StateCommand::Look { keys, .. } => {
            keys.iter().map(|key| size_of::<StateKey>() + key.0.len()).sum()
        }
        _ => 0,
    }
}

#[cold]
fn too_much() -> Error {
    let message = format!(
        "the answers take more than {} MiB: ask for fewer at once",
        ANSWERS_LIMIT_BYTES >> 20
    );
    Error::new(Code::TransactionTooLarge, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EntryBlock, Message, OutboxAnswer, SpaceInfo};

    /// The size of each kind of content in the test: far more than any command takes without it.
    const CONTENT_BYTES: usize = 100_000;

    fn assert_counted(command: impl Into<Command>) {
        let command = command.into();
        assert!(command.weight_bytes() >= CONTENT_BYTES, "{command:?}");
    }

    #[test]
    fn restores_count_their_content() {
        let run = Name::new("r").unwrap();
        let large = Value::String("x".repeat(CONTENT_BYTES));
        let metadata = Some(large);
        let (created, begun, events) = (None, None, Vec::new());
        assert_counted(RunCommand::Restore {
            run: run.clone(),
            metadata: metadata.clone(),
            created,
            events: Vec::new(),
        });
        assert_counted(RunCommand::RestoreHidden {
            run,
            metadata,
            created,
            events,
            begun,
            ends: true,
        });
        let session = Name::new("s").unwrap();
        assert_counted(SessionCommand::Restore { session, payload: vec![0; CONTENT_BYTES] });
    }

    #[test]
    fn replayed_blocks_of_keyed_state_are_counted() {
        let mut block = EntryBlock::default();
        block.push(b"place", Some(&[0; CONTENT_BYTES]));
        let space = Name::new("s").unwrap();
        let info = SpaceInfo::default();
        assert_counted(StateCommand::Replay { space, info, block, hidden: false, shows: false });
    }

    #[test]
    fn filters_are_counted() {
        let field = Field::new("f").unwrap();
        let bounds = vec![vec![0; CONTENT_BYTES / 10]; 10];
        let filters = vec![Where { field, test: Test::In(bounds) }];
        assert_counted(RecordCommand::Count { prefix: String::new(), filters: filters.clone() });
        let pick = RecordPick::under("", filters.clone());
        assert_counted(RecordCommand::Pick(Box::new(pick)));
        let (prefix, after) = (String::new(), None);
        assert_counted(RecordCommand::Scan { prefix, filters, after, limit: 1 });
    }

    #[test]
    fn messages_are_counted_with_their_texts() {
        let text = || "x".repeat(CONTENT_BYTES);
        let message = Message {
            id: 1,
            subject: text(),
            payload: vec![0; CONTENT_BYTES],
            run: Some(text()),
            tries: 1,
            written: 0,
            failure: Some(text()),
        };
        let answer = OutboxAnswer::Messages(vec![message]);
        assert!(answer.weight_bytes() >= 4 * CONTENT_BYTES);
    }
}

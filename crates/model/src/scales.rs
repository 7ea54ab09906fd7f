//! Scales: the answers of one transaction are held together, so together they have a limit.

use crate::limits::ANSWERS_LIMIT_BYTES;
use crate::{Answer, CanonicalEvent, Code, Error, Fields, Page, Record, RecordPage, Value};

/// Weighs answers as they are gathered.
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
    /// Adds an answer; fails when all of them are too much.
    pub fn add(&mut self, answer: &Answer) -> Result<(), Error> {
        self.put(answer.weight_bytes())
    }

    /// Adds a version of a history, or what else has a value.
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

    /// Adds something of this size.
    pub fn add_bytes(&mut self, bytes: usize) -> Result<(), Error> {
        self.put(bytes)
    }

    /// Adds an event of a run.
    pub fn add_event(&mut self, event: &CanonicalEvent) -> Result<(), Error> {
        self.put(event.weight_bytes())
    }

    fn put(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes += size_of::<Answer>() + bytes;
        match self.bytes > ANSWERS_LIMIT_BYTES {
            true => Err(too_much()),
            false => Ok(()),
        }
    }
}

impl Answer {
    /// The memory that what it holds takes, about.
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
            _ => 0,
        }
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

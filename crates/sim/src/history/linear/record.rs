//! A sequential model of a record.

use super::Model;

/// The number of fields of a modelled record.
pub const FIELDS: usize = 4;

/// A record whose fields hold integers.
pub struct Record;

/// The values of the fields.
pub type RecordFields = [Option<i64>; FIELDS];

/// A request to a record.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordAsked {
    /// Returns the fields and the counter.
    Get,
    /// Returns one field.
    Field(usize),
    /// Returns the number of fields.
    Count,
    /// Changes the record if the condition holds.
    Write(Write),
    /// Deletes the record if the condition holds.
    Delete(When),
    /// Sets fields; returns how many are new.
    HashSet(Vec<(usize, i64)>),
    /// Sets a field if it is absent.
    HashInit(usize, i64),
    /// Deletes fields; returns how many existed.
    HashDelete(Vec<usize>),
    /// Adds to a field.
    HashAdd(usize, i64),
}

/// A write to a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The condition.
    pub when: When,
    /// Whether all other fields are removed.
    pub replace: bool,
    /// The new values of fields.
    pub set: Vec<(usize, Put)>,
    /// The fields to remove.
    pub clear: Vec<usize>,
}

/// A condition on a record.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    /// Always true.
    Always,
    /// The record has this counter (`None`: it is absent).
    Counter(Option<u64>),
    /// The record exists.
    Exists,
    /// The field has this value (`None`: it is absent).
    Field(usize, Option<i64>),
}

/// The new value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Put {
    /// This value.
    Value(i64),
    /// The old value plus this.
    Sum(i64),
    /// The old value of another field.
    Copy(usize),
}

/// A response of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordAnswered {
    /// The fields and the counter.
    Record(Option<(RecordFields, u64)>),
    /// The value of a field.
    Value(Option<i64>),
    /// The number of fields.
    Count(u64),
    /// The counter; `None` if the condition failed.
    Maybe(Option<u64>),
    /// Whether the change was made.
    Did(bool),
    /// The value of a field after an addition.
    Sum(i64),
}

/// The state of a record. Without fields it does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RecordState {
    /// The number of writes, including deletions.
    pub counter: u64,
    /// The values of the fields.
    pub fields: RecordFields,
}

impl RecordState {
    fn is_there(&self) -> bool {
        self.fields != RecordFields::default()
    }

    fn next(&self, fields: RecordFields) -> RecordState {
        RecordState { counter: self.counter + 1, fields }
    }

    fn holds(&self, when: &When) -> bool {
        match when {
            When::Always => true,
            When::Counter(is) => self.is_there().then_some(self.counter) == *is,
            When::Exists => self.is_there(),
            When::Field(field, is) => self.fields[*field] == *is,
        }
    }

    fn becomes(&self, field: usize, put: &Put) -> Option<i64> {
        match put {
            Put::Value(value) => Some(*value),
            Put::Sum(by) => Some(self.fields[field].unwrap_or(0).wrapping_add(*by)),
            Put::Copy(of) => self.fields[*of],
        }
    }

    fn write(&self, write: &Write) -> (RecordState, RecordAnswered) {
        let values: Vec<(usize, Option<i64>)> =
            write.set.iter().map(|(field, put)| (*field, self.becomes(*field, put))).collect();
        let brings = values.iter().any(|(_, value)| value.is_some());
        if !self.holds(&write.when) || !(self.is_there() || brings) {
            return (self.clone(), RecordAnswered::Maybe(None));
        }
        let mut fields = if write.replace { RecordFields::default() } else { self.fields };
        values.into_iter().for_each(|(field, value)| fields[field] = value);
        write.clear.iter().for_each(|field| fields[*field] = None);
        let state = self.next(fields);
        let counter = state.counter;
        (state, RecordAnswered::Maybe(Some(counter)))
    }

    fn delete(&self, when: &When) -> (RecordState, RecordAnswered) {
        if self.is_there() && self.holds(when) {
            (self.next(RecordFields::default()), RecordAnswered::Did(true))
        } else {
            (self.clone(), RecordAnswered::Did(false))
        }
    }

    fn hash_set(&self, pairs: &[(usize, i64)]) -> (RecordState, RecordAnswered) {
        let mut fields = self.fields;
        pairs.iter().for_each(|(field, value)| fields[*field] = Some(*value));
        let new = (0..FIELDS)
            .filter(|field| self.fields[*field].is_none() && fields[*field].is_some())
            .count();
        (self.next(fields), RecordAnswered::Count(new as u64))
    }

    fn hash_delete(&self, gone: &[usize]) -> (RecordState, RecordAnswered) {
        let mut fields = self.fields;
        gone.iter().for_each(|field| fields[*field] = None);
        let count = (0..FIELDS).filter(|field| self.fields[*field] != fields[*field]).count();
        let state = if count == 0 { self.clone() } else { self.next(fields) };
        (state, RecordAnswered::Count(count as u64))
    }

    fn put(&self, field: usize, value: i64) -> RecordState {
        let mut fields = self.fields;
        fields[field] = Some(value);
        self.next(fields)
    }
}

impl Model for Record {
    type Asked = RecordAsked;
    type Answered = RecordAnswered;
    type State = RecordState;

    fn apply(state: &RecordState, asked: &RecordAsked) -> (RecordState, RecordAnswered) {
        match asked {
            RecordAsked::Get => {
                let record = state.is_there().then_some((state.fields, state.counter));
                (state.clone(), RecordAnswered::Record(record))
            }
            RecordAsked::Field(field) => {
                (state.clone(), RecordAnswered::Value(state.fields[*field]))
            }
            RecordAsked::Count => {
                let count = state.fields.iter().flatten().count();
                (state.clone(), RecordAnswered::Count(count as u64))
            }
            RecordAsked::Write(write) => state.write(write),
            RecordAsked::Delete(when) => state.delete(when),
            RecordAsked::HashSet(pairs) => state.hash_set(pairs),
            RecordAsked::HashInit(field, value) => match state.fields[*field] {
                Some(_) => (state.clone(), RecordAnswered::Did(false)),
                None => (state.put(*field, *value), RecordAnswered::Did(true)),
            },
            RecordAsked::HashDelete(gone) => state.hash_delete(gone),
            RecordAsked::HashAdd(field, by) => {
                let sum = state.fields[*field].unwrap_or(0).wrapping_add(*by);
                (state.put(*field, sum), RecordAnswered::Sum(sum))
            }
        }
    }
}

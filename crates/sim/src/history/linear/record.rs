//! A record, as small as it can be told.

use super::Model;

/// How many fields a record can have here.
pub const FIELDS: usize = 4;

/// A record whose fields hold whole numbers.
pub struct Record;

/// What fields hold.
pub type RecordFields = [Option<i64>; FIELDS];

/// What a record can be asked.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordAsked {
    /// Its fields and its counter.
    Get,
    /// One field.
    Field(usize),
    /// How many fields it has.
    Count,
    /// To change if the condition holds.
    Write(Write),
    /// To go if the condition holds.
    Delete(When),
    /// To take fields in; answers how many are new.
    HashSet(Vec<(usize, i64)>),
    /// To take a field in that it does not have.
    HashInit(usize, i64),
    /// To let go of fields; answers how many.
    HashDelete(Vec<usize>),
    /// To hold so much more in a field.
    HashAdd(usize, i64),
}

/// A write to a record.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// What must hold.
    pub when: When,
    /// Whether other fields go.
    pub replace: bool,
    /// What fields become.
    pub set: Vec<(usize, Put)>,
    /// What goes.
    pub clear: Vec<usize>,
}

/// What must hold.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    /// Nothing.
    Always,
    /// It has this counter (`None`: it is absent).
    Counter(Option<u64>),
    /// It is there.
    Exists,
    /// The field holds this (`None`: it is not there).
    Field(usize, Option<i64>),
}

/// What a field becomes.
#[derive(Clone, Debug, PartialEq)]
pub enum Put {
    /// This.
    Value(i64),
    /// What it was, and so much more.
    Sum(i64),
    /// What another field was.
    Copy(usize),
}

/// What a record answers.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordAnswered {
    /// Its fields and its counter.
    Record(Option<(RecordFields, u64)>),
    /// What a field holds.
    Value(Option<i64>),
    /// How many fields.
    Count(u64),
    /// Its counter, if the condition held.
    Maybe(Option<u64>),
    /// Whether it was done.
    Did(bool),
    /// What a field holds after an addition.
    Sum(i64),
}

/// What a record is; without fields it is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RecordState {
    /// How often it was written, deletions included.
    pub counter: u64,
    /// What it holds.
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
        let becomes = |(field, put): &(usize, Put)| (*field, self.becomes(*field, put));
        let values: Vec<(usize, Option<i64>)> = write.set.iter().map(becomes).collect();
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
        match self.is_there() && self.holds(when) {
            true => (self.next(RecordFields::default()), RecordAnswered::Did(true)),
            false => (self.clone(), RecordAnswered::Did(false)),
        }
    }

    fn hash_set(&self, pairs: &[(usize, i64)]) -> (RecordState, RecordAnswered) {
        let mut fields = self.fields;
        pairs.iter().for_each(|(field, value)| fields[*field] = Some(*value));
        let is_new = |field: &usize| self.fields[*field].is_none() && fields[*field].is_some();
        let new = (0..FIELDS).filter(is_new).count();
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

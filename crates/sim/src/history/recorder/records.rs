//! Adapter between records and their model.

use super::super::linear::{
    FIELDS, Put, Record, RecordAnswered, RecordAsked, RecordFields, When, Write,
};
use super::subject::{Hint, Subject};
use mainstay::{
    Answer, Command, Condition, Database, Field, FieldValue, Fields, HashCommand, Name,
    RecordCommand, RecordWrite, Result,
};
use mainstay_conformance::random::Random;

impl Subject for Record {
    const PREFIX: &'static str = "l/r";
    const LAST: RecordAsked = RecordAsked::Get;

    fn choose(random: &mut Random, hint: Hint, value: i64) -> RecordAsked {
        let field = random.below(FIELDS as u64) as usize;
        match random.below(100) {
            0..16 => RecordAsked::Get,
            16..26 => RecordAsked::Field(field),
            26..30 => RecordAsked::Count,
            30..66 => RecordAsked::Write(write(random, hint, value)),
            66..72 => RecordAsked::Delete(when(random, hint)),
            72..82 => {
                let other = random.below(FIELDS as u64) as usize;
                RecordAsked::HashSet(vec![(field, value), (other, value + 1)])
            }
            82..86 => RecordAsked::HashInit(field, value),
            86..92 => RecordAsked::HashDelete(vec![field]),
            _ => RecordAsked::HashAdd(field, 1 + random.below(3) as i64),
        }
    }

    fn is_read(asked: &RecordAsked) -> bool {
        matches!(asked, RecordAsked::Get | RecordAsked::Field(_) | RecordAsked::Count)
    }

    fn command(asked: &RecordAsked, name: &str) -> Result<Command> {
        let key = Name::new(name)?;
        let pair = |(at, value): &(usize, i64)| Ok((field(*at)?, text(*value)));
        Ok(match asked {
            RecordAsked::Get => RecordCommand::Get { key, fields: None }.into(),
            RecordAsked::Field(at) => {
                RecordCommand::Get { key, fields: Some(vec![field(*at)?]) }.into()
            }
            RecordAsked::Count => HashCommand::Count { key }.into(),
            RecordAsked::Write(write) => as_write(write, key)?.into(),
            RecordAsked::Delete(when) => {
                RecordCommand::Delete { key, when: conditions(when)? }.into()
            }
            RecordAsked::HashSet(pairs) => {
                let pairs = pairs.iter().map(pair).collect::<Result<_>>()?;
                HashCommand::Set { key, pairs, only_absent: false }.into()
            }
            RecordAsked::HashInit(at, value) => {
                HashCommand::Set { key, pairs: vec![pair(&(*at, *value))?], only_absent: true }
                    .into()
            }
            RecordAsked::HashDelete(gone) => {
                let fields = gone.iter().map(|at| field(*at)).collect::<Result<_>>()?;
                HashCommand::Delete { key, fields }.into()
            }
            RecordAsked::HashAdd(at, by) => {
                HashCommand::Add { key, field: field(*at)?, by: *by }.into()
            }
        })
    }

    fn answered(asked: &RecordAsked, answer: &Answer) -> Option<RecordAnswered> {
        Some(match (asked, answer) {
            (RecordAsked::Get, Answer::Record(None)) => RecordAnswered::Record(None),
            (RecordAsked::Get, Answer::Record(Some(record))) => {
                RecordAnswered::Record(Some((numbers(&record.fields)?, record.counter)))
            }
            (RecordAsked::Field(_), Answer::Record(None)) => RecordAnswered::Value(None),
            (RecordAsked::Field(at), Answer::Record(Some(record))) => {
                RecordAnswered::Value(numbers(&record.fields)?[*at])
            }
            (
                RecordAsked::Count | RecordAsked::HashSet(_) | RecordAsked::HashDelete(_),
                Answer::Count(count),
            ) => RecordAnswered::Count(*count),
            (RecordAsked::Write(_), Answer::MaybeCounter(counter)) => {
                RecordAnswered::Maybe(*counter)
            }
            (RecordAsked::Delete(_) | RecordAsked::HashInit(..), Answer::Did(did)) => {
                RecordAnswered::Did(*did)
            }
            (RecordAsked::HashAdd(..), Answer::Sum(sum)) => RecordAnswered::Sum(sum.parse().ok()?),
            _ => return None,
        })
    }

    fn look(db: &Database, name: &str, asked: &RecordAsked) -> Option<Result<Answer>> {
        let record = match asked {
            RecordAsked::Get => db.records().get(name),
            RecordAsked::Field(at) => db.records().get_fields(name, &[NAMES[*at]]),
            _ => return None,
        };
        Some(record.map(Answer::Record))
    }

    fn told(answered: &RecordAnswered) -> Option<Hint> {
        match answered {
            RecordAnswered::Record(Some((fields, counter))) => {
                Some(Hint { counter: *counter, value: fields[0].unwrap_or(0) })
            }
            RecordAnswered::Maybe(Some(counter)) => Some(Hint { counter: *counter, value: 0 }),
            _ => None,
        }
    }
}

const NAMES: [&str; FIELDS] = ["a", "b", "c", "d"];

fn field(at: usize) -> Result<Field> {
    Field::new(NAMES[at])
}

fn text(value: i64) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Returns the values of the fields; `None` if one of them was not written by any thread.
fn numbers(fields: &Fields) -> Option<RecordFields> {
    let mut numbers = RecordFields::default();
    for (field, value) in fields.iter() {
        let at = NAMES.iter().position(|name| name.as_bytes() == field.as_bytes())?;
        numbers[at] = Some(std::str::from_utf8(value).ok()?.parse().ok()?);
    }
    Some(numbers)
}

fn when(random: &mut Random, hint: Hint) -> When {
    match random.below(6) {
        0 => When::Counter(None),
        1 | 2 => When::Counter(Some(hint.counter)),
        3 => When::Exists,
        4 => When::Field(0, Some(hint.value)),
        _ => When::Always,
    }
}

fn write(random: &mut Random, hint: Hint, value: i64) -> Write {
    let first = random.below(FIELDS as u64) as usize;
    let second = (first + 1 + random.below(FIELDS as u64 - 1) as usize) % FIELDS;
    let put = match random.below(6) {
        0 => Put::Sum(1),
        1 => Put::Copy(second),
        _ => Put::Value(value),
    };
    let mut set = vec![(first, put)];
    let mut clear = Vec::new();
    match random.below(5) {
        0 => set.push((second, Put::Value(value + 1))),
        1 => clear.push(second),
        2 if random.chance(30) => {
            set.clear();
            clear.push(second);
        }
        _ => {}
    }
    let replace = !set.is_empty() && random.chance(15);
    Write { when: when(random, hint), replace, set, clear }
}

fn conditions(when: &When) -> Result<Vec<Condition>> {
    Ok(match when {
        When::Always => Vec::new(),
        When::Counter(is) => vec![Condition::Counter { is: *is }],
        When::Exists => vec![Condition::Exists],
        When::Field(at, is) => vec![Condition::Field { field: field(*at)?, is: is.map(text) }],
    })
}

fn as_write(write: &Write, key: Name) -> Result<RecordWrite> {
    let put = |(at, put): &(usize, Put)| {
        let value = match put {
            Put::Value(value) => FieldValue::Bytes(text(*value)),
            Put::Sum(by) => FieldValue::Sum { by: *by },
            Put::Copy(of) => FieldValue::Copy { of: field(*of)? },
        };
        Ok((field(*at)?, value))
    };
    Ok(RecordWrite {
        when: conditions(&write.when)?,
        replace: write.replace,
        set: write.set.iter().map(put).collect::<Result<_>>()?,
        clear: write.clear.iter().map(|at| field(*at)).collect::<Result<_>>()?,
        ..RecordWrite::to(key.as_str())?
    })
}

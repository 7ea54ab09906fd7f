//! Records in the reference model: fields in a map, conditions, scans, and the Redis hash commands.

use super::run::{Run, may_expire};
use super::versions::{Version, Versions};
use super::{Moment, cells};
use mainstay_model::{
    Answer, Code, Condition, Error, Field, FieldValue, Fields, HashCommand, Record, RecordCommand,
    RecordPage, RecordWrite, Result, Test, Where, limits,
};
use std::cmp::Ordering;

/// All versions of all records.
pub type Records = Versions<Fields>;

/// Converts a stored version to the form that readers see.
pub(super) fn shown(version: &Version<Fields>) -> Record {
    Record {
        fields: version.value.clone().unwrap_or_default(),
        counter: version.counter,
        stamp: version.stamp,
        revision: version.revision,
        expires: version.expires,
    }
}

/// Reduces a record to the wanted fields.
pub(super) fn some(mut record: Record, wanted: Option<&[Field]>) -> Record {
    let fields = record.fields.into_iter();
    let wants = |field: &Field| wanted.is_none_or(|wanted| wanted.contains(field));
    record.fields = fields.filter(|(field, _)| wants(field)).collect();
    record
}

/// Returns a page of the live records that match the filters.
pub(super) fn scan(
    records: &Records,
    prefix: &str,
    filters: &[Where],
    after: Option<&str>,
    limit: usize,
    moment: Moment,
) -> Result<RecordPage> {
    if limit == 0 || limit > limits::PAGE_LIMIT {
        return Err(Error::new(Code::InvalidLimit, format!("{limit} is no page limit")));
    }
    if after.is_some_and(|after| !after.starts_with(prefix)) {
        return Err(Error::new(Code::InvalidArgument, "a cursor of another scan"));
    }
    let mut all = passing(records, prefix, filters, after, moment);
    let more = all.len() > limit;
    all.truncate(limit);
    let next = if more { all.last().map(|(key, _)| key.clone()) } else { None };
    Ok(RecordPage { records: all, next })
}

/// The live records that match the filters, in byte order of their keys.
pub(super) fn passing(
    records: &Records,
    prefix: &str,
    filters: &[Where],
    after: Option<&str>,
    moment: Moment,
) -> Vec<(String, Record)> {
    let inside = records.names().filter(|key| cells::in_range(key, prefix, after, None));
    let live = inside.filter_map(|key| Some((key.clone(), shown(records.live(key, moment)?))));
    live.filter(|(_, record)| filters.iter().all(|filter| passes(filter, &record.fields))).collect()
}

/// Returns whether a record has the field with a matching value.
fn passes(filter: &Where, fields: &Fields) -> bool {
    let Some(value) = fields.get(filter.field.as_bytes()) else { return false };
    match &filter.test {
        Test::Eq(bound) => value == bound,
        Test::Ne(bound) => value != bound,
        Test::In(bounds) => bounds.iter().any(|bound| bound == value),
        Test::Lt(bound) => order(value, bound) == Some(Ordering::Less),
        Test::Le(bound) => matches!(order(value, bound), Some(Ordering::Less | Ordering::Equal)),
        Test::Gt(bound) => order(value, bound) == Some(Ordering::Greater),
        Test::Ge(bound) => matches!(order(value, bound), Some(Ordering::Greater | Ordering::Equal)),
        _ => false,
    }
}

/// Compares decimals by value and everything else by bytes. A decimal and a non-decimal have no order.
fn order(value: &[u8], bound: &[u8]) -> Option<Ordering> {
    match (number(value), number(bound)) {
        (Some(value), Some(bound)) => Some(value.cmp(&bound)),
        (None, None) => Some(value.cmp(bound)),
        _ => None,
    }
}

/// Parses a decimal into its sign and digits. It is padded on both sides of the point, so that any two
/// compare digit by digit.
fn number(text: &[u8]) -> Option<(bool, Vec<i8>)> {
    const PLACES: usize = 400;
    let text = std::str::from_utf8(text).ok()?;
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (whole, fraction) = match digits.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (digits, ""),
    };
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let all = format!("{whole:0>PLACES$}{fraction:0<PLACES$}");
    let sign = if negative { -1 } else { 1 };
    let digits: Vec<i8> = all.bytes().map(|digit| sign * (digit - b'0') as i8).collect();
    // Negative numbers sort first; minus zero equals zero.
    Some((!negative || digits.iter().all(|digit| *digit == 0), digits))
}

impl Run<'_> {
    pub(super) fn record(&mut self, command: &RecordCommand) -> Result<Answer> {
        let moment = self.moment();
        match command {
            RecordCommand::Write(write) => self.write_fields(write),
            RecordCommand::Delete { key, when } => {
                let live = self.seen_record(key.as_str());
                let holds = hold(when, live.as_ref())?;
                let lapsed = live.is_none();
                let did =
                    (holds || lapsed) && self.remove(key.as_str(), |state| &mut state.records);
                Ok(Answer::Did(did))
            }
            RecordCommand::Expire { key, ttl, only } => {
                let seen = self.seen_record(key.as_str());
                let old = seen.as_ref().and_then(|seen| seen.expires);
                let new = self.expiry(*ttl, old)?;
                let Some(seen) = seen else { return Ok(Answer::Did(false)) };
                let holds = may_expire(*only, old, new);
                if holds && new != old {
                    self.write_record(key.as_str(), seen.value.unwrap_or_default(), new);
                }
                Ok(Answer::Did(holds))
            }
            RecordCommand::Get { key, fields } => {
                let seen = self.seen_record(key.as_str());
                Ok(Answer::Record(seen.map(|seen| some(shown(&seen), fields.as_deref()))))
            }
            RecordCommand::Scan { prefix, filters, after, limit } => {
                let records = &self.state.records;
                let after = after.as_deref();
                scan(records, prefix, filters, after, *limit, moment).map(Answer::Records)
            }
            RecordCommand::Count { prefix, filters } => {
                let passing = passing(&self.state.records, prefix, filters, None, moment);
                Ok(Answer::Count(passing.len() as u64))
            }
            other => Err(Error::new(Code::Unsupported, format!("{other:?}"))),
        }
    }

    fn write_fields(&mut self, write: &RecordWrite) -> Result<Answer> {
        check(write)?;
        let key = write.key.as_str();
        let seen = self.seen_record(key);
        let expires = self.expiry(write.ttl, seen.as_ref().and_then(|seen| seen.expires))?;
        if !hold(&write.when, seen.as_ref())? {
            return Ok(Answer::MaybeCounter(None));
        }
        let absent = seen.is_none();
        let old = seen.and_then(|seen| seen.value).unwrap_or_default();
        let mut fields = if write.replace { Fields::default() } else { old.clone() };
        write.clear.iter().for_each(|field| drop(fields.remove(field)));
        for (field, value) in &write.set {
            match value {
                FieldValue::Copy { of } => match old.get(of.as_bytes()) {
                    Some(held) => drop(fields.insert(field.clone(), held.to_vec())),
                    None => drop(fields.remove(field)),
                },
                value => {
                    let held = old.get(field.as_bytes());
                    fields.insert(field.clone(), self.become_value(value, held)?);
                }
            }
        }
        if absent && fields.is_empty() {
            return Ok(Answer::MaybeCounter(None));
        }
        Ok(Answer::MaybeCounter(Some(self.write_record(key, fields, expires))))
    }

    /// Computes the new value of a field.
    fn become_value(&self, value: &FieldValue, old: Option<&[u8]>) -> Result<Vec<u8>> {
        let text = match value {
            FieldValue::Bytes(bytes) => return Ok(bytes.clone()),
            // An open transaction has no revision yet, so it uses 0.
            FieldValue::Revision => (self.writer.revision % u64::MAX).to_string(),
            FieldValue::Millis { plus } => (self.writer.stamp as i64 / 1000 + plus).to_string(),
            FieldValue::Sum { by } => add(old, *by)?.to_string(),
            other => return Err(Error::new(Code::Unsupported, format!("{other:?}"))),
        };
        Ok(text.into_bytes())
    }

    /// Runs a Redis hash command on a record; fails if a cell has that name.
    pub(super) fn hash(&mut self, command: &HashCommand) -> Result<Answer> {
        let key = command.key().as_str();
        if self.seen(key).is_some() {
            return Err(Error::new(Code::WrongType, format!("`{key}` is a cell")));
        }
        let seen = self.seen_record(key);
        let expires = seen.as_ref().and_then(|seen| seen.expires);
        let mut fields = seen.and_then(|seen| seen.value).unwrap_or_default();
        match command {
            HashCommand::Set { pairs, only_absent, .. } => {
                if pairs.is_empty() {
                    return Err(Error::new(Code::InvalidField, "no fields"));
                }
                if *only_absent
                    && pairs.iter().any(|(field, _)| fields.get(field.as_bytes()).is_some())
                {
                    return Ok(Answer::Did(false));
                }
                let before = fields.len();
                pairs.iter().cloned().for_each(|(field, value)| drop(fields.insert(field, value)));
                let new = fields.len() - before;
                self.write_record(key, fields, expires);
                Ok(if *only_absent { Answer::Did(true) } else { Answer::Count(new as u64) })
            }
            HashCommand::Delete { fields: gone, .. } => {
                let count = gone.iter().filter(|field| fields.remove(field).is_some()).count();
                if count > 0 {
                    self.write_record(key, fields, expires);
                }
                Ok(Answer::Count(count as u64))
            }
            HashCommand::Add { field, by, .. } => {
                let sum = add(fields.get(field.as_bytes()), *by)?.to_string();
                fields.insert(field.clone(), sum.clone().into_bytes());
                self.write_record(key, fields, expires);
                Ok(Answer::Sum(sum))
            }
            HashCommand::AddFloat { field, by, .. } => {
                let old = fields.get(field.as_bytes()).unwrap_or(b"0");
                let sum = super::strings::sum(&String::from_utf8_lossy(old), by)?;
                fields.insert(field.clone(), sum.clone().into_bytes());
                self.write_record(key, fields, expires);
                Ok(Answer::Sum(sum))
            }
            HashCommand::Get { fields: wanted, .. } => {
                let seen = self.seen_record(key);
                Ok(Answer::Record(seen.map(|seen| some(shown(&seen), wanted.as_deref()))))
            }
            HashCommand::Count { .. } => Ok(Answer::Count(fields.len() as u64)),
            other => Err(Error::new(Code::Unsupported, format!("{other:?}"))),
        }
    }
}

/// Rejects writes that are invalid independent of the stored state.
fn check(write: &RecordWrite) -> Result<()> {
    let set: Vec<&Field> = write.set.iter().map(|(field, _)| field).collect();
    let changes = !write.clear.is_empty() || write.ttl != mainstay_model::Ttl::Keep;
    let empty = set.is_empty() && (write.replace || !changes);
    let count = |field: &&&Field| set.iter().filter(|other| other == field).count();
    let twice = set.iter().any(|field| count(&field) > 1 || write.clear.contains(field));
    if empty || twice {
        Err(Error::new(Code::InvalidField, "no fields, or one of them twice"))
    } else {
        Ok(())
    }
}

/// Returns whether all conditions hold; a failed fence is an error.
fn hold(when: &[Condition], seen: Option<&Version<Fields>>) -> Result<bool> {
    let value = |field: &Field| {
        let fields = seen.and_then(|seen| seen.value.as_ref());
        fields.and_then(|fields| fields.get(field.as_bytes())).map(<[u8]>::to_vec)
    };
    let mut holds = true;
    for condition in when {
        holds &= match condition {
            Condition::Counter { is } => seen.map(|seen| seen.counter) == *is,
            Condition::Exists => seen.is_some(),
            Condition::Field { field, is } => value(field) == *is,
            Condition::Fence { field, is } if value(field).as_ref() != Some(is) => {
                return Err(Error::new(Code::Fenced, "held by another, or gone"));
            }
            _ => true,
        };
    }
    Ok(holds)
}

fn add(old: Option<&[u8]>, by: i64) -> Result<i64> {
    let text = String::from_utf8_lossy(old.unwrap_or(b"0")).into_owned();
    let number = text.parse::<i64>().ok().filter(|number| number.to_string() == text);
    let number = number.ok_or_else(|| Error::new(Code::NotANumber, "that is no whole number"))?;
    number.checked_add(by).ok_or_else(|| Error::new(Code::Overflow, "the sum leaves its type"))
}

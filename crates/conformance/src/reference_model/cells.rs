//! Cells in the reference model: direct implementations of the commands.

use super::Moment;
use super::run::Run;
use super::versions::{Version, Versions};
use mainstay_model::{
    Answer, CellCommand, Code, Error, Number, Page, Result, Ttl, Value, Versioned, limits,
};

/// All versions of all cells.
pub type Cells = Versions<Value>;

/// Converts a stored version to the form that readers see.
pub(super) fn shown(version: &Version<Value>) -> Versioned {
    Versioned {
        value: version.value.clone().unwrap_or(Value::Null),
        counter: version.counter,
        stamp: version.stamp,
        revision: version.revision,
        expires: version.expires,
    }
}

/// Returns a page of live names.
pub(super) fn list(
    cells: &Cells,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
    moment: Moment,
) -> Result<Page> {
    if limit == 0 || limit > limits::PAGE_LIMIT {
        return Err(Error::new(Code::InvalidLimit, format!("{limit} is no page limit")));
    }
    let seen = cells
        .names()
        .filter(|name| in_range(name, prefix, after, None))
        .filter(|name| cells.live(name, moment).is_some());
    let mut names: Vec<String> = seen.take(limit + 1).cloned().collect();
    let more = names.len() > limit;
    names.truncate(limit);
    let next = if more { names.last().cloned() } else { None };
    Ok(Page { names, next })
}

/// Returns whether a name has the prefix, is after `after` and not after `upto`.
pub(super) fn in_range(name: &str, prefix: &str, after: Option<&str>, upto: Option<&str>) -> bool {
    name.starts_with(prefix)
        && after.is_none_or(|after| name > after)
        && upto.is_none_or(|upto| name <= upto)
}

impl Run<'_> {
    pub(super) fn cell(&mut self, command: &CellCommand) -> Result<Answer> {
        match command {
            CellCommand::Get { name } => {
                Ok(Answer::Cell(self.seen(name.as_str()).as_ref().map(shown)))
            }
            CellCommand::List { prefix, after, limit } => {
                let cells = &self.state.cells;
                let after = after.as_deref();
                list(cells, prefix, after, *limit, self.moment()).map(Answer::Names)
            }
            CellCommand::Init { name, value } => Ok(self.init(name.as_str(), value)),
            CellCommand::Set { name, value, ttl } => self.set(name.as_str(), value, *ttl),
            CellCommand::Cas { name, expected, value } => {
                Ok(self.cas(name.as_str(), *expected, value))
            }
            CellCommand::Delete { name, counter } => Ok(self.delete(name.as_str(), *counter)),
            CellCommand::Incr { name, by } => self.incr(name.as_str(), *by),
            CellCommand::Expire { name, ttl } => self.expire(name.as_str(), *ttl),
            other => Err(Error::new(Code::Unsupported, format!("{other:?}"))),
        }
    }

    fn init(&mut self, name: &str, value: &Value) -> Answer {
        let counter = match self.seen(name) {
            Some(version) => version.counter,
            None => self.write(name, Some(value.clone()), None),
        };
        Answer::Counter(counter)
    }

    fn set(&mut self, name: &str, value: &Value, ttl: Ttl) -> Result<Answer> {
        let old = self.seen(name).and_then(|version| version.expires);
        let expires = self.expiry(ttl, old)?;
        Ok(Answer::Counter(self.write(name, Some(value.clone()), expires)))
    }

    fn cas(&mut self, name: &str, expected: Option<u64>, value: &Value) -> Answer {
        let seen = self.seen(name);
        if seen.as_ref().map(|version| version.counter) != expected {
            return Answer::MaybeCounter(None);
        }
        let expires = seen.and_then(|version| version.expires);
        Answer::MaybeCounter(Some(self.write(name, Some(value.clone()), expires)))
    }

    /// Deletes a cell. Deleting an expired cell still writes the expiry.
    pub(super) fn delete(&mut self, name: &str, counter: Option<u64>) -> Answer {
        let seen = self.seen(name).map(|seen| seen.counter);
        if seen.is_some() && counter.is_some_and(|counter| seen != Some(counter)) {
            return Answer::Did(false);
        }
        Answer::Did(self.remove(name, |state| &mut state.cells))
    }

    fn incr(&mut self, name: &str, by: Number) -> Result<Answer> {
        let seen = self.seen(name);
        let expires = seen.as_ref().and_then(|version| version.expires);
        let old = seen.and_then(|version| version.value).unwrap_or(Value::Int(0));
        let old = number(old);
        let sum = add(&old, by)?;
        let counter = self.write(name, Some(sum.clone()), expires);
        Ok(Answer::Number { value: sum, counter })
    }

    fn expire(&mut self, name: &str, ttl: Ttl) -> Result<Answer> {
        let seen = self.seen(name);
        let expires = self.expiry(ttl, seen.as_ref().and_then(|version| version.expires))?;
        let Some(seen) = seen else { return Ok(Answer::Did(false)) };
        if expires != seen.expires {
            self.write(name, seen.value, expires);
        }
        Ok(Answer::Did(true))
    }
}

/// Parses a string or bytes that hold a canonical integer, one whose text equals its printed form.
fn number(value: Value) -> Value {
    let text = match &value {
        Value::String(text) => Some(text.as_str()),
        Value::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    };
    let whole = text.and_then(|text| text.parse::<i64>().ok().filter(|n| n.to_string() == text));
    whole.map_or(value, Value::Int)
}

/// Converts an integer that a float represents exactly; any other integer is an error instead of being
/// rounded.
fn exact(n: i64) -> Result<f64> {
    let lossless = n.unsigned_abs().checked_shr(n.trailing_zeros()).unwrap_or(0) < 1 << 53;
    if lossless { Ok(n as f64) } else { Err(Error::new(Code::Overflow, "the integer is no float")) }
}

/// Adds two numbers. Integers are checked for overflow; a float operand makes the result a float.
fn add(old: &Value, by: Number) -> Result<Value> {
    let overflow = || Error::new(Code::Overflow, "the sum leaves its type");
    let (a, b) = match (old, by) {
        (Value::Int(a), Number::Int(b)) => {
            return a.checked_add(b).map(Value::Int).ok_or_else(overflow);
        }
        (Value::Int(a), Number::Float(b)) => (exact(*a)?, b),
        (Value::Float(a), Number::Int(b)) => (*a, exact(b)?),
        (Value::Float(a), Number::Float(b)) => (*a, b),
        _ => return Err(Error::new(Code::NotANumber, format!("{old:?} is no number"))),
    };
    let sum = a + b;
    if a.is_finite() && b.is_finite() && !sum.is_finite() {
        return Err(overflow());
    }
    Ok(Value::Float(sum))
}

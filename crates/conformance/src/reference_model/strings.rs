//! Redis string commands in the reference model: direct implementations on the text form of cells.

use super::run::{Run, may_expire};
use mainstay_model::{
    Answer, Code, Error, ExpireOnly, Name, Only, Result, StringCommand, Ttl, Value,
};

/// Number of decimal places that are added exactly.
const DIGITS: usize = 17;

impl Run<'_> {
    pub(super) fn string(&mut self, command: &StringCommand) -> Result<Answer> {
        match command {
            StringCommand::Set { name, value, only, ttl } => {
                self.set_text(name.as_str(), value, only, *ttl)
            }
            StringCommand::SetAll { pairs, only_absent } => Ok(self.set_all(pairs, *only_absent)),
            StringCommand::Put { name, value, ttl } => {
                let expires = self.expiry(*ttl, self.kept(name.as_str()))?;
                let counter = self.write(name.as_str(), Some(value.clone()), expires);
                self.make_way(name.as_str());
                Ok(Answer::Counter(counter))
            }
            StringCommand::Get { name } => {
                self.refuse_record(name.as_str())?;
                Ok(Answer::Cell(self.seen(name.as_str()).as_ref().map(super::cells::shown)))
            }
            StringCommand::Swap { name, value, only, ttl } => {
                self.refuse_record(name.as_str())?;
                self.set_text(name.as_str(), value, only, *ttl)
            }
            StringCommand::Take { name } => {
                self.refuse_record(name.as_str())?;
                let old = self.value(name.as_str());
                self.delete(name.as_str(), None);
                Ok(Answer::Replaced { did: old.is_some(), old })
            }
            StringCommand::Touch { name, ttl } => {
                self.refuse_record(name.as_str())?;
                let old = self.value(name.as_str());
                self.expire_if(name.as_str(), *ttl, ExpireOnly::Always)?;
                Ok(Answer::Replaced { did: old.is_some(), old })
            }
            StringCommand::Append { name, text } => {
                self.refuse_record(name.as_str())?;
                Ok(self.append(name.as_str(), text))
            }
            StringCommand::Add { name, by } => {
                self.refuse_record(name.as_str())?;
                self.add(name.as_str(), *by)
            }
            StringCommand::AddFloat { name, by } => {
                self.refuse_record(name.as_str())?;
                self.add_float(name.as_str(), by)
            }
            StringCommand::Expire { name, ttl, only } => {
                self.expire_if(name.as_str(), *ttl, *only).map(Answer::Did)
            }
            StringCommand::Persist { name } => {
                self.expire_if(name.as_str(), Ttl::Clear, ExpireOnly::WithExpiry).map(Answer::Did)
            }
            other => Err(Error::new(Code::Unsupported, format!("{other:?}"))),
        }
    }

    /// Returns whether a name is only a record; a name that is both a cell and a record counts as a
    /// cell.
    fn is_record(&self, name: &str) -> bool {
        self.seen(name).is_none() && self.seen_record(name).is_some()
    }

    fn refuse_record(&self, name: &str) -> Result<()> {
        if self.is_record(name) {
            Err(Error::new(Code::WrongType, format!("`{name}` is a record")))
        } else {
            Ok(())
        }
    }

    /// Deletes the record of a name that has become a cell.
    fn make_way(&mut self, name: &str) {
        if self.seen_record(name).is_some() {
            self.remove(name, |state| &mut state.records);
        }
    }

    fn value(&self, name: &str) -> Option<Value> {
        self.seen(name).and_then(|version| version.value)
    }

    /// The expiry that a name keeps when it is overwritten, whether it is a cell or a record.
    fn kept(&self, name: &str) -> Option<u64> {
        match self.seen(name) {
            Some(cell) => cell.expires,
            None => self.seen_record(name).and_then(|record| record.expires),
        }
    }

    fn expires(&self, name: &str) -> Option<u64> {
        self.seen(name).and_then(|version| version.expires)
    }

    fn set_text(&mut self, name: &str, value: &Value, only: &Only, ttl: Ttl) -> Result<Answer> {
        let expires = self.expiry(ttl, self.kept(name))?;
        let old = self.value(name);
        let record = self.is_record(name);
        let did = match (only, &old) {
            (Only::Equals(_) | Only::Differs(_), None) if record => {
                return Err(Error::new(Code::WrongType, format!("`{name}` is a record")));
            }
            (Only::Absent, None) if record => false,
            (Only::Present, None) if record => true,
            (Only::Always, _) | (Only::Absent | Only::Differs(_), None) => true,
            (Only::Present | Only::Equals(_), None) | (Only::Absent, Some(_)) => false,
            (Only::Present, Some(_)) => true,
            (Only::Equals(other), Some(old)) => old.as_text() == other.as_text(),
            (Only::Differs(other), Some(old)) => old.as_text() != other.as_text(),
        };
        if did {
            self.write(name, Some(value.clone()), expires);
            self.make_way(name);
        }
        Ok(Answer::Replaced { did, old })
    }

    fn set_all(&mut self, pairs: &[(Name, Value)], only_absent: bool) -> Answer {
        let there = |name: &str| self.seen(name).is_some() || self.is_record(name);
        let taken = pairs.iter().any(|(name, _)| there(name.as_str()));
        if only_absent && taken {
            return Answer::Did(false);
        }
        for (name, value) in pairs {
            self.write(name.as_str(), Some(value.clone()), None);
            self.make_way(name.as_str());
        }
        Answer::Did(true)
    }

    fn append(&mut self, name: &str, more: &[u8]) -> Answer {
        let old = self.value(name).unwrap_or_else(|| Value::from(""));
        let text = [&old.as_text(), more].concat();
        self.write(name, Some(Value::from_text(&text)), self.expires(name));
        Answer::Count(text.len() as u64)
    }

    fn add(&mut self, name: &str, by: i64) -> Result<Answer> {
        let old = self.value(name);
        let text = old.as_ref().map_or("0".into(), text);
        let n: i64 = text.parse().map_err(|_| no_number())?;
        if n.to_string() != text {
            return Err(no_number());
        }
        let sum = n.checked_add(by).ok_or_else(overflow)?;
        let stored = match old {
            Some(Value::Int(_)) => Value::Int(sum),
            _ => Value::from(sum.to_string()),
        };
        let counter = self.write(name, Some(stored), self.expires(name));
        Ok(Answer::Number { value: Value::Int(sum), counter })
    }

    fn add_float(&mut self, name: &str, by: &str) -> Result<Answer> {
        let old = self.value(name);
        let sum = match &old {
            Some(Value::Float(n)) if !n.is_finite() && number(by).is_ok() => return Err(overflow()),
            Some(Value::Float(n)) => sum(&n.to_string(), by)?,
            Some(other) => sum(&text(other), by)?,
            None => sum("0", by)?,
        };
        let as_float = || Value::Float(sum.parse().unwrap_or(f64::NAN));
        let value = match old {
            Some(Value::Float(_)) => as_float(),
            Some(Value::Int(_)) => sum.parse().map_or_else(|_| as_float(), Value::Int),
            _ => Value::from(sum.as_str()),
        };
        let counter = self.write(name, Some(value.clone()), self.expires(name));
        Ok(Answer::Number { value, counter })
    }

    fn expire_if(&mut self, name: &str, ttl: Ttl, only: ExpireOnly) -> Result<bool> {
        let seen = self.seen(name);
        let old = self.expires(name);
        let new = self.expiry(ttl, old)?;
        let Some(seen) = seen else { return Ok(false) };
        let holds = may_expire(only, old, new);
        if holds && new != old {
            self.write(name, seen.value, new);
        }
        Ok(holds)
    }
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(&value.as_text()).into_owned()
}

/// Adds two decimals exactly if they have few enough digits, otherwise as floats.
pub(super) fn sum(a: &str, b: &str) -> Result<String> {
    let float = number(a)? + number(b)?;
    if !float.is_finite() {
        return Err(overflow());
    }
    let text = match (on_paper(a), on_paper(b)) {
        (Some(a), Some(b)) => {
            let sign = if a + b < 0 { "-" } else { "" };
            let sum = (a + b).unsigned_abs();
            let digits = format!("{sum:0width$}", width = DIGITS + 1);
            let (whole, fraction) = digits.split_at(digits.len() - DIGITS);
            format!("{sign}{whole}.{fraction}")
        }
        _ => format!("{float:.DIGITS$}"),
    };
    let short = text.trim_end_matches('0').trim_end_matches('.');
    Ok(if short == "-0" { "0" } else { short }.to_owned())
}

fn number(text: &str) -> Result<f64> {
    let n: f64 = text.parse().map_err(|_| no_number())?;
    let spelled = text.to_ascii_lowercase().contains("inf");
    if n.is_nan() || (n.is_infinite() && !spelled) { Err(no_number()) } else { Ok(n) }
}

/// Converts a decimal to a fixed-point integer; `None` if it has too many digits.
fn on_paper(text: &str) -> Option<i128> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let zeros = DIGITS as i64 + exponent.parse::<i64>().ok()? - fraction.len() as i64;
    let zeros = usize::try_from(zeros).ok().filter(|zeros| *zeros < 40)?;
    let digits: i128 = format!("{whole}{fraction}{}", "0".repeat(zeros)).parse().ok()?;
    Some(digits).filter(|digits| digits.unsigned_abs() < 10_u128.pow(37))
}

fn no_number() -> Error {
    Error::new(Code::NotANumber, "that is no number, or not a whole one")
}

fn overflow() -> Error {
    Error::new(Code::Overflow, "the sum leaves its type")
}

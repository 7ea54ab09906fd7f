//! JSON numbers as text: exactness, canonical form and equality.

use super::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// The field name that serde_json uses internally for raw text.
pub(super) const RAW: &str = "$serde_json::private::RawValue";

/// Converts serde_json's raw-text object to a number.
pub(super) fn of_raw(fields: &BTreeMap<String, Value>) -> Option<Value> {
    let text = fields.get(RAW).filter(|_| fields.len() == 1)?.as_str()?;
    is_number(text).then(|| Value::Number(text.into()))
}

/// Replaces each number that would lose its text with serde_json's raw-text object.
pub(super) fn kept(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut done = 0;
    for place in tokens(text) {
        let token = &text[place.clone()];
        if is_number(token) && !survives(token) {
            out.push_str(&text[done..place.start]);
            out.push_str(&format!("{{\"{RAW}\":\"{token}\"}}"));
            done = place.end;
        }
    }
    match done {
        0 => Cow::Borrowed(text),
        _ => Cow::Owned(out + &text[done..]),
    }
}

/// Finds the first integer in JSON text that does not fit an `i64`.
pub(super) fn beyond_64_bits(text: &str) -> Option<&str> {
    let tokens = tokens(text).map(|place| &text[place]);
    tokens.filter(|token| is_whole(token)).find(|token| token.parse::<i64>().is_err())
}

/// Iterates over the places of numbers in JSON text.
fn tokens(text: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    let mut next = 0;
    std::iter::from_fn(move || {
        while let Some(byte) = bytes.get(next) {
            match byte {
                b'"' => next = string_end(bytes, next + 1),
                b'-' | b'0'..=b'9' => {
                    let is_part =
                        |byte: &&u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
                    let start = next;
                    next += bytes[start..].iter().take_while(is_part).count();
                    return Some(start..next);
                }
                _ => next += 1,
            }
        }
        None
    })
}

/// Returns the place after a string that began before `at`.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn is_whole(token: &str) -> bool {
    let digits = token.strip_prefix('-').unwrap_or(token);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether the text is a valid JSON number.
pub(super) fn is_number(text: &str) -> bool {
    let (mantissa, exponent) = halves(text);
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let whole = whole.strip_prefix('-').unwrap_or(whole);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|text| digits(text.strip_prefix(['+', '-']).unwrap_or(text)))
}

/// Splits a number into mantissa and exponent.
fn halves(text: &str) -> (&str, Option<&str>) {
    match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    }
}

/// Returns whether an `i64` or an `f64` prints as exactly this text.
fn survives(token: &str) -> bool {
    if is_whole(token) && token != "-0" {
        return token.len() < 19 || token.parse::<i64>().is_ok();
    }
    let float = token.parse().ok().filter(|float: &f64| float.is_finite());
    let printed = float.and_then(|float| serde_json::to_string(&float).ok());
    printed.is_some_and(|printed| printed == token)
}

/// Returns whether an `i64`, or an `f64` in its shortest form, represents exactly this number.
fn is_exact(number: &str) -> bool {
    if is_whole(number) {
        return number.parse::<i64>().is_ok();
    }
    match number.parse::<f64>() {
        Ok(float) if float.is_finite() => decimal(number) == decimal(&format!("{float:e}")),
        _ => false,
    }
}

/// Converts a number to an exact integer or double, whatever its text; `None` if neither is exact.
pub(super) fn plain(number: &str) -> Option<Value> {
    if !is_exact(number) {
        return None;
    }
    let whole = number.parse().ok().filter(|_| number != "-0").map(Value::Int);
    whole.or_else(|| number.parse().ok().map(Value::Float))
}

/// A decimal number with its significant digits, without zeros at either end.
#[derive(PartialEq)]
struct Decimal {
    is_negative: bool,
    digits: String,
    exponent: i64,
}

fn decimal(text: &str) -> Option<Decimal> {
    let (mantissa, exponent) = halves(text);
    let is_negative = mantissa.starts_with('-');
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{}{fraction}", whole.trim_start_matches('-'));
    let significant = digits.trim_end_matches('0');
    let dropped = i64::try_from(digits.len() - significant.len()).ok()?;
    let exponent: i64 = exponent.unwrap_or("0").parse().ok()?;
    let exponent = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let digits = significant.trim_start_matches('0').to_owned();
    if digits.is_empty() {
        Some(Decimal { is_negative, digits, exponent: 0 })
    } else {
        Some(Decimal { is_negative, digits, exponent: exponent.checked_add(dropped)? })
    }
}

impl Value {
    /// Returns whether both values have the same canonical JSON (RFC 8785). Numbers that no double represents
    /// are compared as they are: `1` equals `1.0`, and 2^64 differs from 2^64 + 1. Unlike in the RFC, minus
    /// zero differs from zero.
    ///
    /// ```
    /// use mainstay_model::Value;
    /// let [a, b] = ["[1, 18446744073709551616]", "[1.0, 18446744073709551617]"].map(|it| Value::from_json_exact(it).unwrap());
    /// assert!(a.as_array().unwrap()[0].says_the_same(&b.as_array().unwrap()[0]));
    /// assert!(!a.says_the_same(&b));
    /// ```
    pub fn says_the_same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Array(a), Value::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.says_the_same(b))
            }
            (Value::Object(a), Value::Object(b)) => {
                let same = |((name, a), (other, b)): ((&String, &Value), (&String, &Value))| {
                    name == other && a.says_the_same(b)
                };
                a.len() == b.len() && a.iter().zip(b).all(same)
            }
            (a, b) if a == b => true,
            // Both numbers are beyond doubles and have different texts.
            (Value::Number(a), Value::Number(b)) if !is_exact(a) && !is_exact(b) => false,
            (a, b) => match (number_text(a), number_text(b)) {
                (Some(a), Some(b)) => decimal(&a).is_some_and(|a| Some(a) == decimal(&b)),
                _ => false,
            },
        }
    }
}

fn number_text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::Int(n) => Some(n.to_string().into()),
        Value::Float(n) if n.is_finite() => Some(format!("{n:e}").into()),
        Value::Number(text) => Some(Cow::Borrowed(text)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Code, codec, from_value, to_value};

    const BEYOND: [&str; 7] = [
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "100000000000000000000000000000000000000000",
        "1e400",
        "1E-400",
        "0.1000000000000000055511151231257827",
    ];

    #[test]
    fn what_no_double_holds_keeps_its_text() {
        for number in BEYOND {
            for text in [number.to_owned(), format!(r#"{{"a":["1e400",{number},1.5]}}"#)] {
                let value = Value::from_json_exact(&text).unwrap();
                assert_eq!(value.to_json(), text);
                let mut bytes = Vec::new();
                codec::encode_exact(&value, &mut bytes).unwrap();
                assert_eq!(codec::decode(&bytes).unwrap(), value);
                assert_eq!(to_value(&value).unwrap(), value);
                assert_eq!(from_value::<Value>(value).unwrap().to_json(), text);
            }
        }
        for number in
            ["0", "-7", "9223372036854775807", "-9223372036854775808", "0.1", "-0.0", "-12.75"]
        {
            let value = Value::from_json_exact(number).unwrap();
            assert!(matches!(value, Value::Int(_) | Value::Float(_)), "{number}");
            assert_eq!(value, Value::from_json(number).unwrap());
        }
    }

    #[test]
    fn numbers_are_shown_as_they_were_written() {
        for text in ["1.50", "1E2", "1e+2", "1e23", "-0", "[0.10,100.0,1e2]"] {
            let value = Value::from_json_exact(text).unwrap();
            assert_eq!(value.to_json(), text);
            let plain = Value::from_json(text).unwrap();
            assert!(value.says_the_same(&plain) && plain.says_the_same(&value), "{text}");
        }
        assert_eq!(from_value::<f64>(Value::from_json_exact("1.50").unwrap()).unwrap(), 1.5);
        assert_eq!(Value::from_json_exact("12.50").unwrap().as_f64(), Some(12.5));
        // Untagged types, which check the kind of a number first, see an ordinary number.
        #[derive(Debug, PartialEq, serde::Deserialize)]
        #[serde(untagged)]
        enum Amount {
            Float(f64),
            Kept(Vec<Value>),
        }
        let amount = |text| from_value::<Amount>(Value::from_json_exact(text).unwrap()).unwrap();
        assert_eq!(amount("12.50"), Amount::Float(12.5));
        assert_eq!(amount("[1e400]"), Amount::Kept(vec![Value::Number("1e400".into())]));
        let all = Value::from_json_exact(r#"{"a":[1.50,{"b":1E2}]}"#).unwrap();
        assert_eq!(from_value::<Value>(all.clone()).unwrap(), all, "a value keeps the text");
        // Without the exact encoding, only the numeric value is stored.
        let mut bytes = Vec::new();
        codec::encode(&Value::from_json_exact("[1.50,-0,1E2]").unwrap(), &mut bytes).unwrap();
        assert_eq!(codec::decode(&bytes).unwrap(), Value::from_json("[1.5,-0.0,100.0]").unwrap());
    }

    #[test]
    fn what_a_value_cannot_hold_is_refused_by_its_name() {
        for number in &BEYOND[..4] {
            for text in [(*number).to_owned(), format!(r#"[{{"1":"2"}},{number}]"#)] {
                let error = Value::from_json(&text).unwrap_err();
                assert_eq!(error.code(), Code::InvalidValue);
                assert!(error.to_string().contains(&number[..19]), "{error}");
            }
            let value = Value::from_json_exact(number).unwrap();
            let refused = codec::encode(&Value::Array(vec![value]), &mut Vec::new()).unwrap_err();
            assert_eq!(refused.code(), Code::InvalidValue);
        }
        // A string is not a number, and a number with a point or an exponent is rounded to a double.
        for text in [
            r#""18446744073709551616""#,
            r#"{"18446744073709551616":1}"#,
            "1e19",
            "0.1000000000000000055511151231257827",
        ] {
            Value::from_json(text).unwrap();
        }
        assert!(Value::from_json(&format!(r#"{{"{RAW}":"12"}}"#)).is_err());
    }

    #[test]
    fn equal_is_what_canonical_json_makes_equal() {
        let same = |a, b| {
            let [a, b] = [a, b].map(|text| Value::from_json_exact(text).unwrap());
            assert_eq!(a.says_the_same(&b), b.says_the_same(&a));
            a.says_the_same(&b)
        };
        for (a, b) in [
            ("1", "1.0"),
            ("1.50", "1.5"),
            ("1.50", "15e-1"),
            ("1e2", "100"),
            ("[1,{\"a\":2}]", "[1.0,{\"a\":2.0}]"),
            ("10000000000000000000", "1e19"),
            ("1e400", "1e400"),
        ] {
            assert!(same(a, b), "{a} {b}");
        }
        for (a, b) in [
            ("18446744073709551616", "18446744073709551617"),
            ("9007199254740993", "9007199254740992.0"),
            ("1", "\"1\""),
            ("1e400", "1e401"),
            ("0.1", "0.1000000000000000055511151231257827"),
            ("[1]", "[1,1]"),
            ("1", "true"),
            ("0", "-0.0"),
        ] {
            assert!(!same(a, b), "{a} {b}");
        }
    }

    #[test]
    fn a_type_takes_what_it_holds() {
        let value = || Value::from_json_exact("18446744073709551615").unwrap();
        assert_eq!(from_value::<u64>(value()).unwrap(), u64::MAX);
        assert_eq!(from_value::<f64>(value()).unwrap(), u64::MAX as f64);
        assert!(from_value::<i64>(value()).is_err());
        assert!(from_value::<f64>(Value::from_json_exact("1e400").unwrap()).is_err());
    }
}

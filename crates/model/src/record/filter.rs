//! Filters of record scans and the order of field values.
//!
//! Decimal numbers compare by their numeric value and come before all other values, which compare by their
//! bytes. A range matches only values of its bound's kind.

use super::{Field, Fields};
use crate::wire::fields;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// A test of a field. A record without the field fails every test.
///
/// ```
/// use mainstay_model::{Field, Fields, Where, Test};
/// let late = Where { field: Field::new("timeout_at")?, test: Test::Lt(b"1000".to_vec()) };
/// assert!(late.passes(&Fields::of([("timeout_at", "999")])?));
/// assert!(!late.passes(&Fields::of([("timeout_at", "1000")])?));
/// assert!(!late.passes(&Fields::of([("timeout_at", "soon")])?));
/// assert!(!late.passes(&Fields::of([("state", "pending")])?));
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Where {
    /// The field.
    pub field: Field,
    /// The test of its value.
    pub test: Test,
}

/// A test of a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Test {
    /// The value equals these bytes.
    Eq(#[serde(with = "fields::bytes")] Vec<u8>),
    /// The value differs from these bytes.
    Ne(#[serde(with = "fields::bytes")] Vec<u8>),
    /// The value is less than this.
    Lt(#[serde(with = "fields::bytes")] Vec<u8>),
    /// The value is less than or equal to this.
    Le(#[serde(with = "fields::bytes")] Vec<u8>),
    /// The value is greater than this.
    Gt(#[serde(with = "fields::bytes")] Vec<u8>),
    /// The value is greater than or equal to this.
    Ge(#[serde(with = "fields::bytes")] Vec<u8>),
    /// The value equals one of these.
    In(#[serde(with = "fields::list")] Vec<Vec<u8>>),
}

impl Where {
    /// Returns whether a record matches.
    pub fn passes(&self, record: &Fields) -> bool {
        record.get(self.field.as_bytes()).is_some_and(|value| self.test.passes(value))
    }
}

impl Test {
    /// Returns whether a value passes the test.
    pub fn passes(&self, value: &[u8]) -> bool {
        let order = |bound: &[u8]| match (Decimal::of(value), Decimal::of(bound)) {
            (Some(value), Some(bound)) => Some(value.cmp(&bound)),
            (None, None) => Some(value.cmp(bound)),
            _ => None,
        };
        match self {
            Test::Eq(bound) => value == bound,
            Test::Ne(bound) => value != bound,
            Test::In(bounds) => bounds.iter().any(|bound| value == bound),
            Test::Lt(bound) => order(bound) == Some(Ordering::Less),
            Test::Le(bound) => order(bound).is_some_and(Ordering::is_le),
            Test::Gt(bound) => order(bound) == Some(Ordering::Greater),
            Test::Ge(bound) => order(bound).is_some_and(Ordering::is_ge),
        }
    }
}

/// A decimal number as text: a sign, the digits before the point and the digits after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal<'a> {
    /// True if the number is below zero.
    pub negative: bool,
    /// The digits before the point, without leading zeros.
    pub whole: &'a [u8],
    /// The digits after the point, without trailing zeros.
    pub fraction: &'a [u8],
}

impl<'a> Decimal<'a> {
    /// Parses a decimal number: an optional minus, digits, and optionally a point with digits after it.
    pub fn of(bytes: &'a [u8]) -> Option<Decimal<'a>> {
        let (negative, digits) = match bytes {
            [b'-', digits @ ..] => (true, digits),
            digits => (false, digits),
        };
        let point = digits.iter().position(|&byte| byte == b'.');
        let (whole, fraction) = match point {
            Some(point) => (&digits[..point], &digits[point + 1..]),
            None => (digits, &b""[..]),
        };
        let are_digits = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_digit);
        let is_one = !whole.is_empty() && are_digits(whole) && are_digits(fraction);
        if !is_one || point.is_some() && fraction.is_empty() {
            return None;
        }
        let zeros = whole.iter().take_while(|&&digit| digit == b'0').count();
        let kept = fraction.iter().rposition(|&digit| digit != b'0').map_or(0, |last| last + 1);
        let whole = &whole[zeros..];
        let fraction = &fraction[..kept];
        let is_zero = whole.is_empty() && fraction.is_empty();
        Some(Decimal { negative: negative && !is_zero, whole, fraction })
    }
}

impl Ord for Decimal<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let size = |number: &Self| number.whole.len();
        let by_size = || {
            size(self)
                .cmp(&size(other))
                .then_with(|| self.whole.cmp(other.whole))
                .then_with(|| self.fraction.cmp(other.fraction))
        };
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => by_size(),
            (true, true) => by_size().reverse(),
        }
    }
}

impl PartialOrd for Decimal<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Option<Decimal<'_>> {
        Decimal::of(text.as_bytes())
    }

    #[test]
    fn numbers_are_told_from_everything_else() {
        for number in ["0", "-0", "007", "12345678901234567890123", "-1.50", "0.0"] {
            assert!(decimal(number).is_some(), "{number}");
        }
        for other in ["", "-", "+1", "1.", ".5", "1e5", "1.2.3", " 1", "0x1", "NaN", "--1", "1-"] {
            assert!(decimal(other).is_none(), "{other}");
        }
    }

    #[test]
    fn numbers_are_in_order_by_what_they_say() {
        let order = [
            "-100",
            "-20",
            "-19.5",
            "-1.5",
            "-1.25",
            "-0.001",
            "0",
            "0.0009",
            "0.001",
            "0.01",
            "1",
            "1.05",
            "1.5",
            "2",
            "19.5",
            "20",
            "100",
            "12345678901234567890123",
        ];
        for (i, a) in order.iter().enumerate() {
            for (j, b) in order.iter().enumerate() {
                assert_eq!(decimal(a).cmp(&decimal(b)), i.cmp(&j), "{a} and {b}");
            }
        }
        for (a, b) in [("007", "7"), ("-0", "0"), ("1.50", "1.5"), ("1.0", "1")] {
            assert_eq!(decimal(a), decimal(b));
        }
    }

    #[test]
    fn a_range_takes_only_values_of_its_bounds_kind() {
        let passes = |test: Test, value: &str| test.passes(value.as_bytes());
        assert!(passes(Test::Lt(b"10".to_vec()), "9"));
        assert!(!passes(Test::Lt(b"10".to_vec()), "10.0"));
        assert!(passes(Test::Le(b"10".to_vec()), "10.0"));
        assert!(!passes(Test::Eq(b"10".to_vec()), "10.0"), "equality is that of bytes");
        assert!(!passes(Test::Gt(b"10".to_vec()), "abc"));
        assert!(!passes(Test::Lt(b"abc".to_vec()), "10"));
        assert!(passes(Test::Ge(b"abc".to_vec()), "abd"));
        assert!(passes(Test::Ne(b"a".to_vec()), "b") && !passes(Test::Ne(b"a".to_vec()), "a"));
        assert!(passes(Test::In(vec![b"a".to_vec(), b"b".to_vec()]), "b"));
        assert!(!passes(Test::In(Vec::new()), "b"));
    }
}

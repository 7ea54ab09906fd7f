//! Decimal addition of numbers given as text.
//!
//! Adding 0.2 to 0.1 must give 0.3. Numbers with up to 17 digits after the point and 20 before it are added
//! exactly, as integer multiples of 10^-17. All other numbers are added as floats.

/// Maximal number of digits after the point of a sum.
const FRACTION_DIGITS: u32 = 17;

/// The number 1 in units of 10^-17.
const ONE: i128 = 10_i128.pow(FRACTION_DIGITS);

/// Numbers below this limit are exact in units of 10^-17. The sum of two of them does not overflow.
const LIMIT: u128 = 10_u128.pow(FRACTION_DIGITS + 20);

/// Reason why the sum cannot be computed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    NotANumber,
    NotFinite,
}

/// Returns the sum as text: no exponent, no trailing zeros, no trailing point.
pub(super) fn sum(a: &str, b: &str) -> Result<String, Failure> {
    let float = float(a)? + float(b)?;
    if !float.is_finite() {
        return Err(Failure::NotFinite);
    }
    match (parts(a), parts(b)) {
        (Some(a), Some(b)) => Ok(shown(a + b)),
        _ => Ok(trimmed(format!("{float:.17}"))),
    }
}

/// Parses a float. Decimal digits that overflow a float are refused, but a literal infinity is accepted.
fn float(text: &str) -> Result<f64, Failure> {
    let n: f64 = text.parse().map_err(|_| Failure::NotANumber)?;
    let too_large = n.is_infinite() && text.contains(|c: char| c.is_ascii_digit());
    if n.is_nan() || too_large { Err(Failure::NotANumber) } else { Ok(n) }
}

/// Returns the number in units of 10^-17, if it is a multiple of that unit and below `LIMIT`.
fn parts(text: &str) -> Option<i128> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let behind = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let shift = behind.checked_add(i64::from(FRACTION_DIGITS))?;
    let factor = 10_i128.checked_pow(u32::try_from(shift).ok()?)?;
    digits.checked_mul(factor).filter(|parts| parts.unsigned_abs() < LIMIT)
}

fn shown(parts: i128) -> String {
    let sign = if parts < 0 { "-" } else { "" };
    let whole = parts.unsigned_abs() / ONE as u128;
    let fraction = parts.unsigned_abs() % ONE as u128;
    trimmed(format!("{sign}{whole}.{fraction:017}"))
}

/// Removes trailing zeros, and the sign of a zero.
fn trimmed(text: String) -> String {
    match text.trim_end_matches('0').trim_end_matches('.') {
        "-0" | "-" | "" => "0".to_owned(),
        short => short.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_decimals_add_exactly() {
        let cases = [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("10.6", "-5", "5.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3000", "0.1", "3000.1"),
            ("0", "-0.5", "-0.5"),
            ("0.5", "-0.5", "0"),
            ("-.5", "+1.", "0.5"),
            ("100", "0", "100"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("0.00000000000000001", "0", "0.00000000000000001"),
            ("99999999999999999999", "99999999999999999999", "199999999999999999998"),
        ];
        for (a, b, expected) in cases {
            assert_eq!(sum(a, b).as_deref(), Ok(expected), "{a} and {b}");
        }
    }

    #[test]
    fn what_is_longer_adds_as_floats() {
        let cases = [
            ("1e21", "1", "1000000000000000000000"),
            ("0.123456789012345678901", "0", "0.12345678901234568"),
            ("1e-400", "0", "0"),
            ("-1e-30", "0", "0"),
        ];
        for (a, b, expected) in cases {
            assert_eq!(sum(a, b).as_deref(), Ok(expected), "{a} and {b}");
        }
        assert!(sum("1e300", "1").is_ok_and(|text| text.len() == 301));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", " 1", "1 ", "abc", "1e", "-", ".", "nan", "1e400", "1.5.2", "1.+5", "--1"]
        {
            assert_eq!(sum(text, "1"), Err(Failure::NotANumber), "{text:?}");
            assert_eq!(sum("1", text), Err(Failure::NotANumber), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_finite_is_refused() {
        for (a, b) in [("inf", "1"), ("1", "-Infinity"), ("inf", "-inf"), ("1.7e308", "1.7e308")] {
            assert_eq!(sum(a, b), Err(Failure::NotFinite), "{a} and {b}");
        }
    }
}

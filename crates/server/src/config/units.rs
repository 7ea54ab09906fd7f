//! Parses and formats sizes and durations such as `64 MiB`, `30 s` and `7 d`.

use jiff::SignedDuration;

const SIZES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Weeks and days. Shorter units are parsed by jiff, which has no days because a calendar day does not
/// always have 24 hours.
const SPANS: [(&str, u64); 6] = [
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Parses a number of bytes, with or without a unit.
pub fn size_bytes(text: &str) -> Option<u64> {
    counted(text, &SIZES)
}

/// Parses a number of milliseconds, without a unit, with one, or with several as in `1h 30m`.
pub fn span_ms(text: &str) -> Option<u64> {
    let days = || counted(text, &SPANS[..2]);
    days().or_else(|| u64::try_from(text.parse::<SignedDuration>().ok()?.as_millis()).ok())
}

/// Parses an integer, with or without one of the units.
fn counted(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '_');
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    let number: u64 = digits.replace('_', "").parse().ok()?;
    let size = match unit.trim_start() {
        "" => 1,
        unit => units.iter().find(|(name, _)| *name == unit)?.1,
    };
    number.checked_mul(size)
}

/// Formats a size in the largest binary unit that is exact.
pub fn show_size(bytes: u64) -> String {
    show(bytes, &SIZES[..4]).unwrap_or_else(|| format!("{bytes} B"))
}

/// Formats a duration in the largest unit up to days that is exact.
pub fn show_span(ms: u64) -> String {
    show(ms, &SPANS[1..]).unwrap_or_else(|| format!("{ms} ms"))
}

fn show(number: u64, units: &[(&str, u64)]) -> Option<String> {
    let (name, size) =
        units.iter().find(|&&(_, size)| number > 0 && number.is_multiple_of(size))?;
    Some(format!("{} {name}", number / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_have_a_unit() {
        let cases = [("17", 17), ("64 MiB", 64 << 20), ("1GiB", 1 << 30), ("10 kB", 10_000)];
        for (text, bytes) in cases {
            assert_eq!(size_bytes(text), Some(bytes), "{text}");
        }
        for wrong in ["", "MiB", "-1", "1.5 GiB", "5 K", "99999999999 TiB", "1 GiB and more"] {
            assert_eq!(size_bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn spans_are_milliseconds_or_have_units() {
        let cases = [("250", 250), ("30 s", 30_000), ("7 d", 604_800_000), ("2w", 1_209_600_000)];
        for (text, ms) in cases.into_iter().chain([("1h 30m", 5_400_000), ("500ms", 500)]) {
            assert_eq!(span_ms(text), Some(ms), "{text}");
        }
        for wrong in ["", "-1", "-1s", "soon", "1.5.2s", "99999999999999999 d"] {
            assert_eq!(span_ms(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_shown_is_read_as_the_same() {
        for number in [0, 1, 1023, 1 << 20, 3 << 30, 60_000, 90_000, 604_800_000, u64::MAX] {
            assert_eq!(size_bytes(&show_size(number)), Some(number));
            // Durations end where the clock ends.
            if number < u64::MAX {
                assert_eq!(span_ms(&show_span(number)), Some(number));
            }
        }
        assert_eq!((show_size(1 << 30), show_span(90_000)), ("1 GiB".into(), "90 s".into()));
    }
}

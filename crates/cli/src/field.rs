//! Fields and rows: results before they are formatted.

use super::time;
use mainstay::Value;
use std::borrow::Cow;

/// One value of a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// A value; null if absent.
    Plain(Value),
    /// A timestamp in microseconds.
    Stamp(u64),
    /// A timestamp in milliseconds.
    Millis(u64),
}

/// Named fields in display order.
pub type Row = Vec<(Cow<'static, str>, Field)>;

impl Field {
    /// An unsigned number.
    pub fn number(n: u64) -> Field {
        Field::Plain(Value::Int(i64::try_from(n).unwrap_or(i64::MAX)))
    }

    /// Bytes that are usually text.
    pub fn text(text: impl AsRef<[u8]>) -> Field {
        Field::Plain(Value::from_text(text.as_ref()))
    }

    /// The field as JSON.
    pub fn json(&self) -> String {
        match self {
            Field::Plain(value) => value.to_json(),
            Field::Stamp(number) | Field::Millis(number) => number.to_string(),
        }
    }

    /// The field's bare bytes.
    pub fn raw(&self) -> Cow<'_, [u8]> {
        match self {
            Field::Plain(Value::Null) => Cow::Borrowed(b""),
            Field::Plain(value) => value.as_text(),
            Field::Stamp(number) | Field::Millis(number) => {
                Cow::Owned(number.to_string().into_bytes())
            }
        }
    }

    /// The field for a terminal: formatted times, and no control characters.
    pub fn display(&self) -> String {
        match self {
            Field::Plain(Value::Null) | Field::Stamp(0) => "-".to_owned(),
            Field::Plain(Value::Bytes(bytes)) => {
                mainstay_server::resp::inline_command::quote(bytes)
            }
            Field::Plain(value) => escape_control(&String::from_utf8_lossy(&value.as_text())),
            Field::Stamp(us) => time::show(*us),
            Field::Millis(ms) => time::show_ms(*ms),
        }
    }
}

/// Starts a row with the field `name`.
pub fn name_row(name: &str) -> Row {
    vec![("name".into(), Field::text(name))]
}

/// Escapes control characters, because a stored value must not control the terminal.
pub fn escape_control(text: &str) -> String {
    let escape_control = |letter: char| match letter {
        '\n' => letter.to_string(),
        control if control.is_control() => control.escape_default().to_string(),
        plain => plain.to_string(),
    };
    text.chars().map(escape_control).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_three_faces() {
        let stamp = Field::Stamp(1_000_000);
        assert_eq!(stamp.json(), "1000000");
        assert_eq!(stamp.display(), "1970-01-01 00:00:01.000000Z");
        let bytes = Field::text(b"\xff");
        assert_eq!((bytes.json().as_str(), &*bytes.raw()), (r#"{"$bytes":"/w=="}"#, &b"\xff"[..]));
        assert_eq!(bytes.display(), r#""\xff""#);
        assert_eq!(Field::Plain(Value::Null).json(), "null");
        assert_eq!(Field::text("1").json(), r#""1""#, "a text is not a number");
    }

    #[test]
    fn a_value_cannot_steer_the_terminal() {
        assert_eq!(Field::text("a\x1b[31mb\nc").display(), "a\\u{1b}[31mb\nc");
    }
}

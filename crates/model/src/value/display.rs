//! Human-readable text of values: JSON where possible.

use super::Value;
use crate::limits::VALUE_LIMIT_DEPTH;
use std::fmt::{self, Write};

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_value(self, VALUE_LIMIT_DEPTH, f)
    }
}

/// Writes a value. Elements nested deeper than the limit are left out, so that the recursion is bounded.
fn write_value(value: &Value, levels: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match value {
        Value::Null => f.write_str("null"),
        Value::Bool(b) => write!(f, "{b}"),
        Value::Int(n) => write!(f, "{n}"),
        // The debug form keeps the point, so that 1.0 does not look like an integer.
        Value::Float(n) => write!(f, "{n:?}"),
        Value::Number(text) => f.write_str(text),
        Value::String(text) => write_text(text, f),
        Value::Bytes(bytes) => write!(f, "b\"{}\"", bytes.escape_ascii()),
        Value::Array(_) | Value::Object(_) if levels == 0 => f.write_str("..."),
        Value::Array(items) => {
            f.write_char('[')?;
            for (index, item) in items.iter().enumerate() {
                f.write_str(if index == 0 { "" } else { ", " })?;
                write_value(item, levels - 1, f)?;
            }
            f.write_char(']')
        }
        Value::Object(fields) => {
            f.write_char('{')?;
            for (index, (name, item)) in fields.iter().enumerate() {
                f.write_str(if index == 0 { "" } else { ", " })?;
                write_text(name, f)?;
                f.write_str(": ")?;
                write_value(item, levels - 1, f)?;
            }
            f.write_char('}')
        }
    }
}

fn write_text(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

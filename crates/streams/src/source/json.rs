//! JSON Lines source.

use super::{Source, SourceItem};
use mainstay_model::{Code, Error, Result};
use serde::de::DeserializeOwned;
use std::marker::PhantomData;

/// Parses each line of a source as a JSON value. Empty lines are skipped.
///
/// ```
/// use mainstay_streams::{Items, JsonLines, Source};
/// #[derive(serde::Deserialize)]
/// struct Order { customer: String }
///
/// let lines = Items::new("orders", [r#"{"customer":"ada"}"#.to_owned()]);
/// let mut orders: JsonLines<Order> = JsonLines::new(lines);
/// assert_eq!(orders.next()?.unwrap().item.customer, "ada");
/// # Ok::<(), mainstay_model::Error>(())
/// ```
pub struct JsonLines<T> {
    lines: Box<dyn Source<Item = String>>,
    values: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> JsonLines<T> {
    /// Wraps a source of lines.
    pub fn new(lines: impl Source<Item = String> + 'static) -> JsonLines<T> {
        JsonLines { lines: Box::new(lines), values: PhantomData }
    }

    fn value(&self, line: &SourceItem<String>) -> Result<T> {
        serde_json::from_str(&line.item).map_err(|error| {
            let name = self.lines.name();
            let time = line.time;
            let message =
                format!("source `{name}`: the line at time {time} is no such value: {error}");
            Error::new(Code::InvalidValue, message)
        })
    }
}

impl<T: DeserializeOwned> Source for JsonLines<T> {
    type Item = T;

    fn name(&self) -> &str {
        self.lines.name()
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        self.lines.seek(position)
    }

    fn next(&mut self) -> Result<Option<SourceItem<T>>> {
        while let Some(line) = self.lines.next()? {
            if line.item.trim().is_empty() {
                continue;
            }
            let time = line.time;
            let position = line.position;
            return Ok(Some(SourceItem { item: self.value(&line)?, time, position }));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Items;

    fn numbers(lines: &[&str]) -> JsonLines<u32> {
        JsonLines::new(Items::new("numbers", lines.iter().map(|line| line.to_string())))
    }

    #[test]
    fn empty_lines_are_passed_over() {
        let mut numbers = numbers(&["1", "", " ", "2"]);
        assert_eq!(numbers.next().unwrap().unwrap().item, 1);
        let second = numbers.next().unwrap().unwrap();
        assert_eq!((second.item, second.position), (2, 4));
        assert_eq!(numbers.next().unwrap(), None);
    }

    #[test]
    fn what_is_no_such_value_is_named_with_its_time() {
        let error = numbers(&["\"one\""]).next().unwrap_err();
        assert_eq!(error.code(), Code::InvalidValue);
        assert!(error.message().contains("source `numbers`: the line at time 0.0"), "{error}");
    }
}

//! Configuration layers: the settings in a file, in the environment and in flags, each with its origin.

use super::origin::{Origin, Problem};
use super::settings::Field;
use super::tables::{self, Table};
use serde_json::{Map, Number, Value};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

/// One setting that a source gives.
#[derive(Clone, Debug)]
pub struct Leaf {
    pub table: &'static Table,
    /// Index in the list of tables, for a table that may appear several times.
    pub index: usize,
    pub field: &'static Field,
    pub value: Value,
    /// The text as it was typed, if it may have been meant as a string.
    pub text: Option<String>,
    pub origin: Origin,
}

impl Leaf {
    /// Returns the full name, with the name of the table.
    pub fn key(&self) -> String {
        self.table.key(self.field.name)
    }
}

/// The settings of one source.
#[derive(Debug, Default)]
pub struct Layer {
    pub leaves: Vec<Leaf>,
    /// Lists that the source gives. They replace the lists of lower layers.
    pub lists: Vec<&'static Table>,
}

/// Reads the settings in a file.
pub fn file(path: &Path, problems: &mut Vec<Problem>) -> Layer {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("the file cannot be read: {error}");
            problems.push(Problem::new(Origin::File(path.to_owned(), None), message));
            return Layer::default();
        }
    };
    file_text(path, &text, problems)
}

/// Reads the settings in the text of a file.
pub fn file_text(path: &Path, text: &str, problems: &mut Vec<Problem>) -> Layer {
    let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let origin = |at: usize| Origin::File(path.to_owned(), Some(line(at)));
    let (document, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        let mut walk = Walk { origin: &origin, text: None, layer: Layer::default(), problems };
        walk.entries("", None, 0, document.get_ref());
        return walk.layer;
    }
    // Settings recovered from invalid TOML may not be the intended ones, so they are ignored.
    problems.extend(errors.iter().map(|error| {
        let at = error.span().map_or(0, |span| span.start);
        Problem::new(origin(at), format!("this is not TOML: {}", error.message()))
    }));
    Layer::default()
}

/// Reads the settings in the environment, such as `MAINSTAY_RESP__CONNECTIONS=500`. Variables without a
/// double underscore are ignored, such as those that Kubernetes creates for a service of the same name.
pub fn environment(variables: &[(String, String)], problems: &mut Vec<Problem>) -> Layer {
    let mut layer = Layer::default();
    for (name, value) in variables {
        let key = name.strip_prefix("MAINSTAY_").filter(|key| key.contains("__"));
        if let Some(key) = key.map(|key| key.to_ascii_lowercase().replace("__", ".")) {
            typed(&key, value, Origin::Environment(name.clone()), &mut layer, problems);
        }
    }
    layer
}

/// Reads the settings in flags.
pub fn flags(flags: &[(String, String, String)], problems: &mut Vec<Problem>) -> Layer {
    let mut layer = Layer::default();
    for (flag, key, value) in flags {
        typed(key, value, Origin::Flag(flag.clone()), &mut layer, problems);
    }
    layer
}

/// Reads one setting given as text: as TOML if it parses, otherwise as a string without quotes.
fn typed(key: &str, text: &str, origin: Origin, into: &mut Layer, problems: &mut Vec<Problem>) {
    let text_value = || Spanned::new(0..0, DeValue::String(text.into()));
    let value = DeValue::parse(text).unwrap_or_else(|_| text_value());
    let (path, name) = key.rsplit_once('.').unwrap_or(("", key));
    let layer = std::mem::take(into);
    let mut walk = Walk { origin: &|_| origin.clone(), text: Some(text), layer, problems };
    walk.entry(path, tables::at(path), 0, (name, 0), &value);
    *into = walk.layer;
}

struct Walk<'a> {
    origin: &'a dyn Fn(usize) -> Origin,
    text: Option<&'a str>,
    layer: Layer,
    problems: &'a mut Vec<Problem>,
}

impl Walk<'_> {
    fn entries(
        &mut self,
        path: &str,
        table: Option<&'static Table>,
        index: usize,
        of: &DeTable<'_>,
    ) {
        for (name, value) in of {
            self.entry(path, table, index, (name.get_ref(), name.span().start), value);
        }
    }

    fn entry(
        &mut self,
        path: &str,
        table: Option<&'static Table>,
        index: usize,
        (name, at): (&str, usize),
        value: &Spanned<DeValue<'_>>,
    ) {
        let key = [path, name].join(".").trim_start_matches('.').to_owned();
        if let Some(inner) = tables::at(&key) {
            return self.inner(inner, at, value);
        }
        match table.and_then(|table| Some((table, table.field(name)?))) {
            Some((table, field)) => {
                let value = json(value.get_ref());
                let text = self.text.map(str::to_owned);
                let origin = (self.origin)(at);
                self.layer.leaves.push(Leaf { table, index, field, value, text, origin });
            }
            None => {
                let nearest = tables::nearest(&key);
                self.wrong(at, format!("there is no setting {key}; the nearest is {nearest}"));
            }
        }
    }

    fn inner(&mut self, table: &'static Table, at: usize, value: &Spanned<DeValue<'_>>) {
        match (table.is_list, value.get_ref()) {
            (false, DeValue::Table(inner)) => self.entries(table.path, Some(table), 0, inner),
            (true, DeValue::Array(items)) => self.list(table, at, items),
            (false, _) => self.wrong(at, format!("{0} is a table: write [{0}]", table.path)),
            (true, _) => self.wrong(at, format!("{0} is a list: write [[{0}]]", table.path)),
        }
    }

    fn list(&mut self, table: &'static Table, at: usize, items: &[Spanned<DeValue<'_>>]) {
        self.layer.lists.push(table);
        for (index, item) in items.iter().enumerate() {
            match item.get_ref() {
                DeValue::Table(inner) => self.entries(table.path, Some(table), index, inner),
                _ => self.wrong(at, format!("{0} is a list of tables: write [[{0}]]", table.path)),
            }
        }
    }

    fn wrong(&mut self, at: usize, message: String) {
        self.problems.push(Problem::new((self.origin)(at), message));
    }
}

fn json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => integer(number),
        DeValue::Float(number) => number.as_str().parse().map_or(Value::Null, Value::Number),
        DeValue::Boolean(yes) => Value::Bool(*yes),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(fields) => {
            let fields = fields.iter().map(|(n, v)| (n.get_ref().to_string(), json(v.get_ref())));
            Value::Object(fields.collect::<Map<_, _>>())
        }
    }
}

/// Converts an integer. One that is too large for 64 bits becomes text, which every numeric setting
/// rejects.
fn integer(number: &DeInteger<'_>) -> Value {
    let digits = number.as_str();
    let radix = number.radix();
    let unsigned = u64::from_str_radix(digits, radix).map(Number::from);
    let number_value = unsigned.or_else(|_| i64::from_str_radix(digits, radix).map(Number::from));
    number_value.map_or_else(|_| Value::String(number.to_string()), Value::Number)
}

//! Layers: what a file, the environment and the flags give, as leaves that know where they came from.

use super::origin::{Origin, Problem};
use super::settings::Field;
use super::tables::{self, Table};
use serde_json::{Map, Number, Value};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

/// One setting that somebody gave.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// Its table.
    pub table: &'static Table,
    /// Which of the tables of that name it is in, where there may be several.
    pub index: usize,
    /// What is known of it.
    pub field: &'static Field,
    /// What was given.
    pub value: Value,
    /// The same as it was typed, where it may have been meant as text.
    pub text: Option<String>,
    /// Who gave it.
    pub origin: Origin,
}

impl Leaf {
    /// Its name with that of its table.
    pub fn key(&self) -> String {
        self.table.key(self.field.name)
    }
}

/// What one source gives.
#[derive(Debug, Default)]
pub struct Layer {
    /// Its settings.
    pub leaves: Vec<Leaf>,
    /// Its lists, which take the place of those in layers below.
    pub lists: Vec<&'static Table>,
}

/// What a file gives.
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

/// What the text of a file gives.
pub fn file_text(path: &Path, text: &str, problems: &mut Vec<Problem>) -> Layer {
    let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let origin = |at: usize| Origin::File(path.to_owned(), Some(line(at)));
    let (document, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        let mut walk = Walk { origin: &origin, text: None, layer: Layer::default(), problems };
        walk.entries("", None, 0, document.get_ref());
        return walk.layer;
    }
    // What was made of such a text is not what was meant.
    problems.extend(errors.iter().map(|error| {
        let at = error.span().map_or(0, |span| span.start);
        Problem::new(origin(at), format!("this is not TOML: {}", error.message()))
    }));
    Layer::default()
}

/// What the environment gives: `MAINSTAY_RESP__CONNECTIONS=500`. Variables without a double
/// underscore are not meant, such as those that Kubernetes makes for a service of our name.
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

/// What flags give.
pub fn flags(flags: &[(String, String, String)], problems: &mut Vec<Problem>) -> Layer {
    let mut layer = Layer::default();
    for (flag, key, value) in flags {
        typed(key, value, Origin::Flag(flag.clone()), &mut layer, problems);
    }
    layer
}

/// One setting as text: TOML where it is that, else a string without its quotes.
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
                let (value, text) = (json(value.get_ref()), self.text.map(str::to_owned));
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

/// One that no number of ours can hold stays text, which no number takes.
fn integer(number: &DeInteger<'_>) -> Value {
    let (digits, radix) = (number.as_str(), number.radix());
    let unsigned = u64::from_str_radix(digits, radix).map(Number::from);
    let number_value = unsigned.or_else(|_| i64::from_str_radix(digits, radix).map(Number::from));
    number_value.map_or_else(|_| Value::String(number.to_string()), Value::Number)
}

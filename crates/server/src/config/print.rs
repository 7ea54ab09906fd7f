//! Prints the effective settings as a commented file or as JSON, each with its origin.

use super::origin::Origin;
use super::settings::Field;
use super::settle::{Loaded, shown};
use super::tables::{TABLES, Table};
use serde_json::{Map, Value, json};

/// Line width of comments.
const WIDTH: usize = 100;
/// A space at which no line is broken.
const UNBROKEN: &str = "\u{a0}";
/// The text shown in place of a secret.
const HIDDEN: &str = "…";

impl Loaded {
    /// Formats the settings as an equivalent configuration file.
    pub fn to_toml(&self) -> String {
        let tree = self.tree();
        let tables: Vec<String> = TABLES.iter().map(|table| self.table(table, &tree)).collect();
        tables.join("\n")
    }

    /// Returns the settings as a JSON object of tables, each setting with its value and origin.
    pub fn to_json(&self) -> Value {
        let tree = self.tree();
        let mut root = json!({});
        for table in TABLES {
            let value = match (table.is_list, place(&tree, table)) {
                (true, Value::Array(items)) => {
                    items.iter().enumerate().map(|(n, item)| self.object(table, n, item)).collect()
                }
                (_, value) => self.object(table, 0, value),
            };
            let mut at = &mut root;
            for name in table.path.split('.') {
                at = &mut at[name];
            }
            *at = value;
        }
        root
    }

    fn tree(&self) -> Value {
        serde_json::to_value(&self.config).unwrap_or_default()
    }

    fn object(&self, table: &Table, index: usize, value: &Value) -> Value {
        let one = |field: &'static Field| {
            let origin = self.origin(table, index, field).to_string();
            let value = if hides(field, &value[field.name]) {
                Value::from(HIDDEN)
            } else {
                value[field.name].clone()
            };
            (field.name.to_owned(), json!({ "value": value, "origin": origin }))
        };
        Value::Object(table.leaves().map(one).collect::<Map<_, _>>())
    }

    fn table(&self, table: &Table, tree: &Value) -> String {
        let about = comment(table.about);
        match (table.is_list, place(tree, table)) {
            (false, value) => {
                format!("{about}[{}]\n{}", table.path, self.lines(table, 0, value, true))
            }
            (true, Value::Array(items)) if !items.is_empty() => {
                let item = |(index, item)| {
                    format!("[[{}]]\n{}", table.path, self.lines(table, index, item, index == 0))
                };
                about + &items.iter().enumerate().map(item).collect::<Vec<_>>().join("\n")
            }
            (true, _) => about + &format!("# [[{}]]\n", table.path) + &example(table),
        }
    }

    fn lines(&self, table: &Table, index: usize, value: &Value, explain: bool) -> String {
        let line = |field: &'static Field| {
            let about = if explain { explained(field) } else { String::new() };
            let origin: Origin = self.origin(table, index, field);
            let value = written(field, &value[field.name]);
            format!("{about}{} = {value} # {origin}\n", field.name)
        };
        table.leaves().map(line).collect()
    }
}

fn place<'a>(tree: &'a Value, table: &Table) -> &'a Value {
    table.path.split('.').fold(tree, |value, name| &value[name])
}

/// Formats the settings that an entry of an empty list could have.
fn example(table: &Table) -> String {
    table.leaves().map(|field| format!("{}# {} = …\n", explained(field), field.name)).collect()
}

/// Returns whether the value is a secret to hide. Empty values are shown.
fn hides(field: &Field, value: &Value) -> bool {
    let is_empty = value.is_null() || value == "" || value.as_array().is_some_and(Vec::is_empty);
    field.is_secret() && !is_empty
}

/// Formats a value as in the file.
fn written(field: &Field, value: &Value) -> String {
    match value {
        _ if hides(field, value) => format!("\"{HIDDEN}\""),
        Value::Null => "\"none\"".to_owned(),
        Value::Number(number) => match number.as_u64().map(|number| shown(field, number)) {
            Some(text) if text.contains(' ') => format!("\"{text}\""),
            _ => number.to_string(),
        },
        // Other JSON values have a TOML form.
        other => toml::Value::try_from(other).map(|v| v.to_string()).unwrap_or_default(),
    }
}

/// Formats the explanation and the bounds of a setting as a comment.
fn explained(field: &Field) -> String {
    let shown = |number: &u64| shown(field, *number);
    match &field.bounds {
        Some(bounds) => {
            let low = shown(bounds.start());
            let high = shown(bounds.end());
            // No line is broken inside the bounds.
            let bounds = format!("From {low} to {high}.").replace(' ', UNBROKEN);
            comment(&format!("{} {bounds}", field.about))
        }
        None => comment(field.about),
    }
}

/// Formats text as comment lines.
fn comment(text: &str) -> String {
    let mut lines = vec![String::from("#")];
    for word in text.split_ascii_whitespace() {
        if lines.last().is_some_and(|line| line.len() + word.len() >= WIDTH) {
            lines.push("#".to_owned());
        }
        if let Some(line) = lines.last_mut() {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n").replace(UNBROKEN, " ") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let field = |name| Field { name, about: "", bounds: None, hidden: false };
        let shown = |name| written(&field(name), &json!("deep"));
        assert_eq!((shown("password_hash"), shown("name")), ("\"…\"".into(), "\"deep\"".into()));
    }
}

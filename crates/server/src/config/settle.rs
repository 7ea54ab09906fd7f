//! Merges the layers: checks each setting alone, lets later layers override earlier ones, and builds the
//! configuration.
//!
//! Each setting is first checked alone, on top of the defaults. An error then belongs to this setting, and
//! one wrong setting does not hide another one.

use super::Config;
use super::layers::{Layer, Leaf};
use super::origin::{Origin, Problem};
use super::settings::Field;
use super::tables::Table;
use super::units;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// A valid configuration, and the origins of its settings.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// The file that was read.
    pub file: Option<PathBuf>,
    given: Vec<Leaf>,
}

impl Loaded {
    /// Returns the origin of a setting.
    pub(super) fn origin(&self, table: &Table, index: usize, field: &Field) -> Origin {
        self.given
            .iter()
            .find(|leaf| same(leaf, table, index, field))
            .map_or(Origin::Default, |leaf| leaf.origin.clone())
    }

    /// Returns the number of settings that are not defaults.
    pub fn given(&self) -> usize {
        self.given.len()
    }
}

fn same(leaf: &Leaf, table: &Table, index: usize, field: &Field) -> bool {
    (leaf.table.path, leaf.index, leaf.field.name) == (table.path, index, field.name)
}

/// Merges layers, where later ones override earlier ones.
pub fn settle(
    layers: impl IntoIterator<Item = Layer>,
    file: Option<PathBuf>,
    mut problems: Vec<Problem>,
) -> Result<Loaded, Vec<Problem>> {
    let mut given: Vec<Leaf> = Vec::new();
    for Layer { leaves, lists } in layers {
        given.retain(|leaf| lists.iter().all(|list| list.path != leaf.table.path));
        let mut sound = Vec::new();
        for mut leaf in leaves {
            match alone(&leaf) {
                Ok(value) => {
                    leaf.value = value;
                    sound.push(leaf);
                }
                Err(message) => problems.push(Problem::new(leaf.origin, message)),
            }
        }
        problems.extend(sound.iter().filter_map(|leaf| odd(leaf, &sound)));
        for leaf in sound {
            given.retain(|old| !same(old, leaf.table, leaf.index, leaf.field));
            given.push(leaf);
        }
    }
    let loaded = Loaded { config: together(&given)?, file, given };
    if problems.is_empty() {
        let checked = loaded.config.check_together();
        problems
            .extend(checked.map_err(|error| Problem::new(Origin::Together, error.message())).err());
    }
    problems.sort_by(|a, b| a.origin.cmp(&b.origin));
    if problems.is_empty() { Ok(loaded) } else { Err(problems) }
}

/// Builds the configuration from these settings and the defaults.
fn together(given: &[Leaf]) -> Result<Config, Vec<Problem>> {
    let whole = given.iter().fold(defaults(), |tree, leaf| with(tree, leaf, leaf.value.clone()));
    let problem = |error: serde_json::Error| Problem::new(Origin::Together, error.to_string());
    serde_json::from_value(whole).map_err(|error| vec![problem(error)])
}

/// Returns the value of a setting in the first form that fits.
fn alone(leaf: &Leaf) -> Result<Value, String> {
    let mut why = None;
    for form in forms(leaf) {
        // The setting is checked as part of the only entry of its list.
        let tree = with(defaults(), &Leaf { index: 0, ..leaf.clone() }, form.clone());
        match serde_json::from_value::<Config>(tree) {
            Ok(_) => return within(leaf, form),
            Err(error) => why = why.or(Some(error)),
        }
    }
    let why = why.map(|error| error.to_string()).unwrap_or_default();
    Err(match wanted(leaf) {
        _ if leaf.field.is_secret() => format!("{} does not have the form it needs", leaf.key()),
        Some(wanted) => format!("{} wants {wanted}, not {}", leaf.key(), leaf.value),
        None => format!("{}: {why}", leaf.key()),
    })
}

/// Returns the possible values of a setting, the likeliest first.
fn forms(leaf: &Leaf) -> Vec<Value> {
    let name = leaf.field.name;
    let nothing = (leaf.value == "none").then_some(Value::Null);
    let counted = leaf.value.as_str().and_then(|text| {
        if name.ends_with("_bytes") {
            units::size_bytes(text)
        } else if name.ends_with("_ms") {
            units::span_ms(text)
        } else {
            None
        }
    });
    let text = leaf.text.clone().map(Value::String);
    let first = nothing.into_iter().chain(counted.map(Value::from));
    first.chain([leaf.value.clone()]).chain(text).collect()
}

fn within(leaf: &Leaf, value: Value) -> Result<Value, String> {
    match (&leaf.field.bounds, value.as_u64()) {
        (Some(bounds), Some(number)) if !bounds.contains(&number) => {
            let low = shown(leaf.field, *bounds.start());
            let high = shown(leaf.field, *bounds.end());
            let given = shown(leaf.field, number);
            Err(format!("{} has to be between {low} and {high}, not {given}", leaf.key()))
        }
        _ => Ok(value),
    }
}

/// Formats a number with the unit of its setting.
pub(super) fn shown(field: &Field, number: u64) -> String {
    if field.name.ends_with("_bytes") {
        units::show_size(number)
    } else if field.name.ends_with("_ms") {
        units::show_span(number)
    } else {
        number.to_string()
    }
}

/// Describes the expected type of a setting.
fn wanted(leaf: &Leaf) -> Option<&'static str> {
    let default = defaults();
    let usual = default.pointer(&format!("/{}", leaf.key().replace('.', "/")));
    match (leaf.field.name, usual) {
        (name, _) if name.ends_with("_bytes") => Some("bytes, or text such as \"64 MiB\""),
        (name, _) if name.ends_with("_ms") => {
            Some("milliseconds, or text such as \"30 s\" or \"7 d\"")
        }
        (_, Some(Value::Number(_))) => Some("a whole number"),
        (_, Some(Value::Bool(_))) => Some("true or false"),
        _ if !leaf.value.is_string() => Some("text in quotes"),
        _ => None,
    }
}

/// Returns the error in a setting that types and bounds do not show. Settings of a list entry are checked
/// together, when the first of them is checked.
fn odd(leaf: &Leaf, all: &[Leaf]) -> Option<Problem> {
    let is_beside =
        |other: &&Leaf| (other.table.path, other.index) == (leaf.table.path, leaf.index);
    let mut unit: Vec<Leaf> = vec![Leaf { index: 0, ..leaf.clone() }];
    if leaf.table.is_list {
        unit = all.iter().filter(is_beside).map(|l| Leaf { index: 0, ..l.clone() }).collect();
        if unit.first().is_some_and(|first| first.field.name != leaf.field.name) {
            return None;
        }
    }
    let error = together(&unit).ok()?.check().err()?;
    Some(Problem::new(leaf.origin.clone(), format!("{}: {}", leaf.key(), error.message())))
}

pub(super) fn defaults() -> Value {
    // Settings are numbers, strings and lists, so the conversion to JSON cannot fail.
    serde_json::to_value(Config::default()).unwrap_or_default()
}

/// Returns the tree with one value replaced.
fn with(mut tree: Value, leaf: &Leaf, value: Value) -> Value {
    let mut place = &mut tree;
    for name in leaf.table.path.split('.') {
        place = &mut place[name];
    }
    if leaf.table.is_list
        && let Value::Array(items) = place
    {
        while items.len() <= leaf.index {
            items.push(Value::Object(Map::new()));
        }
        place = &mut items[leaf.index];
    }
    place[leaf.field.name] = value;
    tree
}

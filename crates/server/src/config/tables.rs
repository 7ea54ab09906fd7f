//! The tables of the configuration file, in the order in which they are printed.
//!
//! A part of the server with settings needs a field in `Config` and a line here.

use super::database::{self, KeyedRetentionClass, RecordRetentionClass, RetentionClass};
use super::{Field, Server};
use crate::{archive, http, jobs, memory, outbox, resp, security, telemetry, tls};

#[derive(Debug)]
pub struct Table {
    /// Its name, as written between brackets.
    pub path: &'static str,
    /// The explanation of the table.
    pub about: &'static str,
    /// Its settings, including nested tables, which have an entry of their own in `TABLES`.
    pub fields: &'static [Field],
    /// True if it may appear several times.
    pub is_list: bool,
}

macro_rules! table {
    ($path:literal, $settings:ty) => {
        Table {
            path: $path,
            about: <$settings>::ABOUT,
            fields: <$settings>::FIELDS,
            is_list: false,
        }
    };
    ([$path:literal], $settings:ty) => {
        Table { is_list: true, ..table!($path, $settings) }
    };
}

/// All tables.
pub const TABLES: &[Table] = &[
    table!("server", Server),
    table!("resp", resp::Settings),
    table!("resp.request", resp::request::Limits),
    table!("http", http::Settings),
    table!("memory", memory::Settings),
    table!("database", database::Settings),
    table!(["database.retention_classes"], RetentionClass),
    table!(["database.record_retention_classes"], RecordRetentionClass),
    table!(["database.keyed_retention_classes"], KeyedRetentionClass),
    table!("jobs", jobs::Settings),
    table!(["jobs.types"], jobs::TypeSettings),
    table!("outbox", outbox::Settings),
    table!("archive", archive::Settings),
    table!("security", security::Settings),
    table!(["security.users"], security::UserSettings),
    table!("tls", tls::Settings),
    table!("log", telemetry::Log),
    table!("telemetry", telemetry::Export),
];

/// Returns the table with this name.
pub fn at(path: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.path == path)
}

impl Table {
    /// Returns the setting with this name, unless it is a table.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.leaves().find(|field| field.name == name)
    }

    /// Returns the settings that are not tables.
    pub fn leaves(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().filter(|field| !field.hidden && at(&self.key(field.name)).is_none())
    }

    /// Returns the full name of a setting, with the name of the table.
    pub fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }
}

/// Returns the known name most similar to an unknown one, in the same table if the table is known.
pub fn nearest(key: &str) -> String {
    let tables = TABLES.iter().map(|table| table.path.to_owned());
    let leaves = TABLES.iter().flat_map(|table| table.leaves().map(|f| table.key(f.name)));
    let beside = key.rsplit_once('.').map(|(path, _)| path).filter(|path| at(path).is_some());
    let fits = |name: &String| beside.is_none_or(|path| name.starts_with(&format!("{path}.")));
    let likeness = |name: &String| strsim::jaro_winkler(name, key);
    let all = tables.chain(leaves).filter(fits);
    all.max_by(|a, b| likeness(a).total_cmp(&likeness(b))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use serde_json::Value;

    /// Collects the names of all tables and settings of the struct. Lists count as settings here, because
    /// they are empty.
    fn keys(path: &str, value: &Value, into: &mut Vec<String>) {
        let join = |name: &str| [path, name].join(".").trim_start_matches('.').to_owned();
        match value {
            Value::Object(fields) => fields.iter().for_each(|(n, v)| keys(&join(n), v, into)),
            _ => into.push(path.to_owned()),
        }
    }

    #[test]
    fn every_setting_of_the_struct_is_in_a_table_and_explained() {
        let mut found = Vec::new();
        let config = serde_json::to_value(Config::default()).unwrap();
        keys("", &config, &mut found);
        let mut listed: Vec<String> = Vec::new();
        for table in TABLES {
            if table.is_list {
                listed.push(table.path.to_owned())
            } else {
                listed.extend(table.leaves().map(|field| table.key(field.name)))
            }
            assert!(table.leaves().all(|field| field.about.len() > 10), "{}", table.path);
        }
        found.sort();
        listed.sort();
        assert_eq!(found, listed);
    }

    #[test]
    fn every_number_has_bounds_and_lies_within_them() {
        let config = serde_json::to_value(Config::default()).unwrap();
        for table in TABLES.iter().filter(|table| !table.is_list) {
            for field in table.leaves() {
                let pointer = format!("/{}", table.key(field.name).replace('.', "/"));
                if let Some(number) = config.pointer(&pointer).and_then(Value::as_u64) {
                    let bounds = field.bounds.as_ref().expect(&pointer);
                    assert!(bounds.contains(&number), "{pointer}");
                }
            }
        }
    }

    #[test]
    fn what_is_mistyped_is_near_to_what_was_meant() {
        assert_eq!(nearest("resp.conections"), "resp.connections");
        assert_eq!(nearest("rsep.connections"), "resp.connections");
        assert_eq!(nearest("htp"), "http");
        assert_eq!(nearest("database.cache"), "database.cache_bytes");
    }
}

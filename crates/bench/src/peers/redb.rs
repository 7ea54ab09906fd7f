//! redb: a copy-on-write B-tree with one fsync per transaction.

use crate::context::Outcome;
use redb::{Database, Durability, ReadableDatabase, TableDefinition};
use std::path::Path;

const TABLE: TableDefinition<&str, &str> = TableDefinition::new("current");

/// One table of names and values.
pub struct Redb(Database);

impl Redb {
    /// Creates the file with redb's default settings, except for the cache.
    pub fn create(directory: &Path, cache_bytes: usize) -> Outcome<Redb> {
        let mut builder = Database::builder();
        builder.set_cache_size(cache_bytes);
        let redb = Redb(builder.create(directory.join("data.redb"))?);
        redb.load(&[], &[])?;
        Ok(redb)
    }

    /// Inserts everything in one transaction.
    pub fn load(&self, names: &[String], values: &[String]) -> Outcome<()> {
        let transaction = self.0.begin_write()?;
        let mut table = transaction.open_table(TABLE)?;
        for (name, value) in names.iter().zip(values.iter().cycle()) {
            table.insert(name.as_str(), value.as_str())?;
        }
        drop(table);
        Ok(transaction.commit()?)
    }

    /// Inserts in its own transaction, with an fsync.
    pub fn set_durable(&self, name: &str, value: &str) -> Outcome<()> {
        let transaction = self.0.begin_write()?;
        transaction.open_table(TABLE)?.insert(name, value)?;
        Ok(transaction.commit()?)
    }

    /// Looks up a value and copies it.
    pub fn get(&self, name: &str) -> Outcome<Option<String>> {
        let table = self.0.begin_read()?.open_table(TABLE)?;
        let found = redb::ReadableTable::get(&table, name)?;
        Ok(found.map(|value| value.value().to_string()))
    }

    /// Lists the names from this one on.
    pub fn list(&self, after: &str, limit: usize) -> Outcome<Vec<String>> {
        let table = self.0.begin_read()?.open_table(TABLE)?;
        let behind = redb::ReadableTable::range(&table, after..)?;
        behind.take(limit).map(|item| Ok(item?.0.value().to_string())).collect()
    }

    /// Reads two cells and writes both, without an fsync.
    pub fn read_and_write(&self, names: [&str; 2], value: &str) -> Outcome<()> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(Durability::None)?;
        let mut table = transaction.open_table(TABLE)?;
        for name in names {
            let found = redb::ReadableTable::get(&table, name)?;
            std::hint::black_box(found.map(|value| value.value().to_string()));
        }
        for name in names {
            table.insert(name, value)?;
        }
        drop(table);
        Ok(transaction.commit()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_does_what_is_measured() {
        let directory = tempfile::tempdir().unwrap();
        let redb = Redb::create(directory.path(), 1 << 20).unwrap();
        let names = ["a", "b"].map(String::from);
        redb.load(&names, &["x".to_string()]).unwrap();
        redb.set_durable("c", "y").unwrap();
        redb.read_and_write(["a", "b"], "z").unwrap();
        assert_eq!(redb.get("a").unwrap().as_deref(), Some("z"));
        assert_eq!(redb.get("d").unwrap(), None);
        assert_eq!(redb.list("b", 5).unwrap(), ["b", "c"]);
    }
}

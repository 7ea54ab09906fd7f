//! fjall: an LSM tree like ours, with its own journal.

use crate::context::Outcome;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Current values in one keyspace, their history in another.
pub struct Fjall {
    database: Database,
    current: Keyspace,
    history: Keyspace,
    sequence: AtomicU64,
}

impl Fjall {
    /// Opens with fjall's default settings, except for the block cache.
    pub fn open(directory: &Path, cache_bytes: u64) -> Outcome<Fjall> {
        let database = Database::builder(directory).cache_size(cache_bytes).open()?;
        let current = database.keyspace("current", KeyspaceCreateOptions::default)?;
        let history = database.keyspace("history", KeyspaceCreateOptions::default)?;
        Ok(Fjall { database, current, history, sequence: AtomicU64::new(0) })
    }

    /// Inserts without an fsync.
    pub fn set(&self, name: &str, value: &str) -> Outcome<()> {
        Ok(self.current.insert(name, value)?)
    }

    /// Inserts and syncs the journal.
    pub fn set_durable(&self, name: &str, value: &str) -> Outcome<()> {
        self.current.insert(name, value)?;
        Ok(self.database.persist(PersistMode::SyncData)?)
    }

    /// Writes a value and an entry of its history in one batch, without an fsync.
    pub fn set_with_history(&self, name: &str, value: &str) -> Outcome<()> {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let mut key = Vec::with_capacity(name.len() + 9);
        key.extend_from_slice(name.as_bytes());
        key.push(0);
        key.extend_from_slice(&sequence.to_be_bytes());
        let mut batch = self.database.batch().durability(Some(PersistMode::Buffer));
        batch.insert(&self.current, name, value);
        batch.insert(&self.history, key, value);
        Ok(batch.commit()?)
    }

    /// Looks up a value. Returns whether it exists.
    pub fn get(&self, name: &str) -> Outcome<bool> {
        Ok(self.current.get(name)?.is_some())
    }

    /// Lists the names from this one on.
    pub fn list(&self, after: &str, limit: usize) -> Outcome<Vec<String>> {
        let mut names = Vec::with_capacity(limit);
        for item in self.current.range(after.to_string()..).take(limit) {
            names.push(String::from_utf8(item.key()?.to_vec())?);
        }
        Ok(names)
    }

    /// The newest entries of a history, newest first.
    pub fn history(&self, name: &str, limit: usize) -> Outcome<Vec<Vec<u8>>> {
        let mut prefix = Vec::with_capacity(name.len() + 1);
        prefix.extend_from_slice(name.as_bytes());
        prefix.push(0);
        let newest = self.history.prefix(prefix).rev().take(limit);
        newest.map(|item| Ok(item.value()?.to_vec())).collect()
    }

    /// Flushes and compacts everything, so that reads see one settled tree.
    pub fn settle(&self) -> Outcome<()> {
        for keyspace in [&self.current, &self.history] {
            keyspace.rotate_memtable_and_wait()?;
            keyspace.major_compact()?;
        }
        Ok(())
    }
}

/// fjall with optimistic transactions.
pub struct FjallTransactions {
    database: fjall::OptimisticTxDatabase,
    current: fjall::OptimisticTxKeyspace,
}

impl FjallTransactions {
    /// Opens with fjall's default settings, except for the block cache.
    pub fn open(directory: &Path, cache_bytes: u64) -> Outcome<FjallTransactions> {
        let database =
            fjall::OptimisticTxDatabase::builder(directory).cache_size(cache_bytes).open()?;
        let current = database.keyspace("current", KeyspaceCreateOptions::default)?;
        Ok(FjallTransactions { database, current })
    }

    /// Inserts without an fsync.
    pub fn set(&self, name: &str, value: &str) -> Outcome<()> {
        Ok(self.current.insert(name, value)?)
    }

    /// Reads two cells and writes both.
    pub fn read_and_write(&self, names: [&str; 2], value: &str) -> Outcome<()> {
        use fjall::Readable;
        let mut transaction = self.database.write_tx()?;
        for name in names {
            std::hint::black_box(transaction.get(&self.current, name)?);
        }
        for name in names {
            transaction.insert(&self.current, name, value);
        }
        Ok(transaction.commit()??)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_does_what_is_measured() {
        let directory = tempfile::tempdir().unwrap();
        let fjall = Fjall::open(directory.path(), 1 << 20).unwrap();
        for value in ["one", "two", "three"] {
            fjall.set_with_history("a", value).unwrap();
        }
        fjall.set_durable("b", "x").unwrap();
        fjall.settle().unwrap();
        assert!(fjall.get("a").unwrap() && !fjall.get("c").unwrap());
        assert_eq!(fjall.history("a", 2).unwrap(), [b"three".to_vec(), b"two".to_vec()]);
        assert_eq!(fjall.list("a", 10).unwrap(), ["a", "b"]);
    }
}

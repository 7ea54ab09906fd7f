//! Long transactions that write: one at a time, and after each of them a rest in which the others are served.
//!
//! ```text
//!   |-- long --|............ rest: nine times as long ............|-- long --|
//!        others wait          others are served at once
//! ```
//!
//! While it is executed, a transaction holds the writer, and a long one holds it for as long as many short ones. The rest is left
//! out if nobody else has written since the last one began: who is alone loads data at full speed.

use mainstay::{Clock, Database, SystemClock, Transaction};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

/// A transaction of more commands is long.
pub const LONG_COMMANDS: usize = 1_000;
/// The rest after a long transaction, as a multiple of the time that it took.
const REST_FACTOR: u64 = 9;
/// No rest is longer.
const REST_LIMIT_US: u64 = 2_000_000;

/// Whether a transaction takes so long that it is not for an event loop.
pub fn is_long(transaction: &Transaction) -> bool {
    transaction.steps.len() > LONG_COMMANDS || transaction.takes_a_while() || transaction.walks()
}

/// Whether it also holds the writer.
pub fn is_long_write(transaction: &Transaction) -> bool {
    is_long(transaction) && !transaction.steps.iter().all(|step| step.command.is_snapshot_read())
}

/// When the next long transaction that writes may begin.
#[derive(Default)]
pub struct LongWrites {
    clock: SystemClock,
    last: Mutex<Last>,
    /// Over HTTP each user waits for its own turn first, so that users take turns.
    turns: Mutex<BTreeMap<String, Turn>>,
    turn: Turn,
}

type Turn = Arc<tokio::sync::Mutex<()>>;

/// The last long transaction.
#[derive(Default)]
struct Last {
    rests_until_us: u64,
    /// The newest revision if nobody has written beside it.
    revision: u64,
}

/// When a long transaction began, and the newest revision of then.
struct Begin {
    us: u64,
    revision: u64,
}

impl LongWrites {
    /// How long the next one has to wait; nothing where it may begin.
    pub fn wait(&self, db: &Database) -> Option<Duration> {
        let last = self.last.lock();
        let wait_us = last.rests_until_us.saturating_sub(self.clock.monotonic_us());
        (wait_us > 0 && db.revision() != last.revision).then(|| Duration::from_micros(wait_us))
    }

    /// Runs one and measures it.
    pub fn measure<T>(&self, db: &Database, work: impl FnOnce() -> T) -> T {
        let begin = self.begin_at(db);
        let done = work();
        self.ended(&begin);
        done
    }

    fn begin_at(&self, db: &Database) -> Begin {
        Begin { us: self.clock.monotonic_us(), revision: db.revision() }
    }

    fn ended(&self, begin: &Begin) {
        let now_us = self.clock.monotonic_us();
        let rest_us = now_us.saturating_sub(begin.us).saturating_mul(REST_FACTOR);
        let rests_until_us = now_us.saturating_add(rest_us.min(REST_LIMIT_US));
        *self.last.lock() = Last { rests_until_us, revision: begin.revision + 1 };
    }

    /// Waits for a user's turn and for the end of the rest. The transaction ends when the guard is dropped.
    pub async fn begin(&self, user: &str, db: &Database) -> Running<'_> {
        let own = self.turns.lock().entry(user.to_owned()).or_default().clone();
        let turns = [own.lock_owned().await, self.turn.clone().lock_owned().await];
        while let Some(wait) = self.wait(db) {
            tokio::time::sleep(wait).await;
        }
        Running { long_writes: self, begin: self.begin_at(db), _turns: turns }
    }
}

/// A long transaction over HTTP, while it runs.
pub struct Running<'l> {
    long_writes: &'l LongWrites,
    begin: Begin,
    _turns: [OwnedMutexGuard<()>; 2],
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.long_writes.ended(&self.begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay::{CellCommand, Durability, Name, Options, RecordCommand};

    fn set(name: &str) -> CellCommand {
        CellCommand::set(Name::new(name).unwrap(), 1)
    }

    fn db() -> Database {
        Options::new().durability(Durability::Memory).memory().unwrap()
    }

    #[test]
    fn it_rests_only_if_somebody_else_writes() {
        let (db, long_writes) = (db(), LongWrites::default());
        assert_eq!(long_writes.wait(&db), None, "the first one");
        let write = |name: &str| drop(db.execute(Transaction::new().step(set(name))).unwrap());
        let sleep = || std::thread::sleep(Duration::from_millis(50));
        long_writes.measure(&db, || {
            write("a");
            sleep();
        });
        assert_eq!(long_writes.wait(&db), None, "nobody else has written");
        write("b");
        let wait = long_writes.wait(&db).unwrap();
        assert!(wait > Duration::from_millis(20) && wait <= Duration::from_secs(2), "{wait:?}");
        long_writes.measure(&db, || {
            write("a");
            write("b");
            sleep();
        });
        assert!(long_writes.wait(&db).is_some(), "somebody else wrote at the same time");
    }

    #[test]
    fn many_commands_and_walks_are_long_and_reads_do_not_write() {
        let sets = |n: usize| (0..n).fold(Transaction::new(), |all, _| all.step(set("a")));
        let count = || RecordCommand::Count { prefix: String::new(), filters: Vec::new() };
        assert!(!is_long_write(&sets(1_000)) && is_long_write(&sets(1_001)));
        assert!(is_long_write(&sets(1).step(count())));
        let reads = Transaction::new().step(count());
        assert!(is_long(&reads) && !is_long_write(&reads));
    }
}

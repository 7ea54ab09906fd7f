//! What the face counts.
//!
//! ```text
//!   loop 1 --> tally 1 \
//!   loop 2 --> tally 2 --+--> Totals, when somebody looks: INFO, /metrics
//!   workers --> tally    /
//! ```
//!
//! Each loop has a tally of its own that only it writes: counting takes no locked instruction, and no
//! loop waits for another one's cache line.

use super::reply::Reply;
use super::table::{self, GROUPS, Group};
use mainstay::{Buckets, Counter, DURATION_BOUNDS_US, Histogram};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of transactions in a batch.
const BATCH_BOUNDS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 4_096];

/// Errors have few first words. More than this would be a fault, and is counted as `OTHER`.
const ERROR_KINDS: usize = 64;

/// What one event loop counts.
#[derive(Debug)]
pub struct Tally {
    /// By place in the table of commands.
    commands: Box<[Counter]>,
    /// Answered at once in this turn, by group.
    known: [Counter; GROUPS.len()],
    durations_us: [Buckets; GROUPS.len()],
    batches: Buckets,
    received_bytes: Counter,
    sent_bytes: Counter,
    errors: Mutex<BTreeMap<String, u64>>,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            commands: (0..table::all().count()).map(|_| Counter::new()).collect(),
            known: [const { Counter::new() }; GROUPS.len()],
            durations_us: [const { Buckets::new(DURATION_BOUNDS_US) }; GROUPS.len()],
            batches: Buckets::new(BATCH_BOUNDS),
            received_bytes: Counter::new(),
            sent_bytes: Counter::new(),
            errors: Mutex::default(),
        }
    }
}

impl Tally {
    /// Counts a command by its place in the table.
    pub fn command(&self, place: usize) {
        if let Some(count) = self.commands.get(place) {
            count.add(1);
        }
    }

    /// A command was answered at once.
    pub fn answered(&self, group: Group) {
        self.known[group as usize].add(1);
    }

    /// All that was answered at once took so long.
    pub fn known_took(&self, us: u64) {
        for (count, durations) in self.known.iter().zip(&self.durations_us) {
            match count.take() {
                0 => {}
                count => durations.add(us, count),
            }
        }
    }

    /// A command took so long.
    pub fn took(&self, group: Group, us: u64) {
        self.durations_us[group as usize].add(us, 1);
    }

    /// A batch of so many transactions is executed.
    pub fn batch(&self, transactions: usize) {
        self.batches.add(transactions as u64, 1);
    }

    /// So many bytes have come.
    pub fn received(&self, bytes: usize) {
        self.received_bytes.add(bytes as u64);
    }

    /// So many bytes have left.
    pub fn sent(&self, bytes: usize) {
        self.sent_bytes.add(bytes as u64);
    }

    /// Counts a reply that is an error, by its first word.
    pub fn reply(&self, reply: &Reply) {
        if let Reply::Error(text) = reply {
            self.error(text);
        }
    }

    #[cold]
    fn error(&self, text: &str) {
        let kind = text.split(' ').next().unwrap_or_default();
        let mut errors = self.errors.lock();
        let kind = if errors.len() < ERROR_KINDS { kind } else { "OTHER" };
        *errors.entry(kind.to_owned()).or_default() += 1;
    }
}

/// What the face counts, all loops together.
#[derive(Debug, Default)]
pub struct Figures {
    tallies: Mutex<Vec<Arc<Tally>>>,
    /// What is measured outside the loops; one at a time.
    work: Mutex<Option<Arc<Tally>>>,
    /// Connections that were taken.
    pub accepted: AtomicU64,
    /// Connections that were one too many.
    pub rejected: AtomicU64,
    /// Connections that were cut because they did not read.
    pub slow_readers: AtomicU64,
    /// Long work that waits for a worker.
    pub work_waiting: AtomicU64,
    /// Long work that is being done.
    pub work_running: AtomicU64,
    /// Those who wait for changes.
    pub feed_readers: AtomicU64,
    /// Commands that wait for what others do.
    pub tasks_waiting: AtomicU64,
}

impl Figures {
    /// A tally for one more loop.
    pub fn tally(&self) -> Arc<Tally> {
        let tally: Arc<Tally> = Arc::default();
        self.tallies.lock().push(tally.clone());
        tally
    }

    /// Long work of a group took so long.
    pub fn worked(&self, group: Group, us: u64) {
        let mut work = self.work.lock();
        let tally = work.get_or_insert_with(|| self.tally());
        tally.durations_us[group as usize].add(us, 1);
    }

    /// All that was counted so far.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.tallies.lock().iter().for_each(|tally| totals.add(tally));
        totals
    }
}

/// Counts one up.
pub fn count(figure: &AtomicU64) {
    figure.fetch_add(1, Ordering::Relaxed);
}

/// Counts one down.
pub fn uncount(figure: &AtomicU64) {
    figure.fetch_sub(1, Ordering::Relaxed);
}

/// What all loops counted.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Commands by name, those that were asked at least once.
    pub commands: BTreeMap<&'static str, u64>,
    /// How long commands took, by group.
    pub durations_us: [Histogram; GROUPS.len()],
    /// Transactions in a batch.
    pub batches: Histogram,
    /// Bytes that came.
    pub received_bytes: u64,
    /// Bytes that left.
    pub sent_bytes: u64,
    /// Replies that were errors, by their first word.
    pub errors: BTreeMap<String, u64>,
}

impl Totals {
    fn add(&mut self, tally: &Tally) {
        for (spec, count) in table::all().zip(&tally.commands) {
            match count.look() {
                0 => {}
                count => *self.commands.entry(spec.name).or_default() += count,
            }
        }
        for (own, more) in self.durations_us.iter_mut().zip(&tally.durations_us) {
            own.merge(&more.look());
        }
        self.batches.merge(&tally.batches.look());
        self.received_bytes += tally.received_bytes.look();
        self.sent_bytes += tally.sent_bytes.look();
        for (kind, count) in tally.errors.lock().iter() {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
    }

    /// All commands together.
    pub fn command_count(&self) -> u64 {
        self.commands.values().sum()
    }

    /// All errors together.
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_loops_count_is_one_total() {
        let figures = Figures::default();
        let (one, two) = (figures.tally(), figures.tally());
        let (place, _) = table::find(&[b"get", b"a"]).ok().unwrap();
        one.command(place);
        two.command(place);
        one.answered(Group::Strings);
        one.answered(Group::Strings);
        one.known_took(100);
        two.took(Group::Strings, 10_000);
        one.known_took(999);
        one.reply(&Reply::error("WRONGTYPE of something"));
        two.reply(&Reply::error("WRONGTYPE of something else"));
        two.reply(&Reply::Status("OK"));
        let totals = figures.totals();
        assert_eq!(totals.commands.into_iter().collect::<Vec<_>>(), [("get", 2)]);
        let strings = &totals.durations_us[Group::Strings as usize];
        assert_eq!((strings.count(), strings.sum), (3, 10_200), "a turn counts once");
        assert_eq!(totals.errors.into_iter().collect::<Vec<_>>(), [("WRONGTYPE".to_owned(), 2)]);
    }

    #[test]
    fn kinds_of_errors_stay_few_whatever_is_said() {
        let tally = Tally::default();
        (0..1000).for_each(|i| tally.reply(&Reply::error(format!("E{i} no"))));
        let errors = tally.errors.lock();
        assert_eq!(errors.len(), ERROR_KINDS + 1);
        assert_eq!(errors["OTHER"], 1000 - ERROR_KINDS as u64);
    }
}

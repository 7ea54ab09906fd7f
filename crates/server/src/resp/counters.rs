//! Counters and histograms of the RESP front end.
//!
//! ```text
//!   loop 1 --> tally 1 \
//!   loop 2 --> tally 2 --+--> Totals, computed when read: INFO, /metrics
//!   workers --> tally    /
//! ```
//!
//! Each loop has its own tally, which only that loop writes. Counting therefore needs no locked
//! instruction, and no loop waits for the cache line of another one.

use super::reply::Reply;
use super::table::{self, GROUPS, Group};
use mainstay::{Buckets, Counter, DURATION_BOUNDS_US, Histogram};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Histogram bounds: the number of transactions in a batch.
const BATCH_BOUNDS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 4_096];

/// The most kinds of errors. Errors have few first words, so more kinds would be a defect. Further kinds
/// count as `OTHER`.
const ERROR_KINDS: usize = 64;

/// The counters of one event loop.
#[derive(Debug)]
pub struct LoopCounters {
    /// By position in the command table.
    commands: Box<[Counter]>,
    /// Commands answered without the batch in this turn, by group.
    immediate: [Counter; GROUPS.len()],
    durations_us: [Buckets; GROUPS.len()],
    batches: Buckets,
    received_bytes: Counter,
    sent_bytes: Counter,
    errors: Mutex<BTreeMap<String, u64>>,
}

impl Default for LoopCounters {
    fn default() -> LoopCounters {
        LoopCounters {
            commands: (0..table::all().count()).map(|_| Counter::new()).collect(),
            immediate: [const { Counter::new() }; GROUPS.len()],
            durations_us: [const { Buckets::new(DURATION_BOUNDS_US) }; GROUPS.len()],
            batches: Buckets::new(BATCH_BOUNDS),
            received_bytes: Counter::new(),
            sent_bytes: Counter::new(),
            errors: Mutex::default(),
        }
    }
}

impl LoopCounters {
    /// Counts a command by its position in the table.
    pub fn count_command(&self, position: usize) {
        if let Some(count) = self.commands.get(position) {
            count.add(1);
        }
    }

    /// Counts a command that was answered without the batch.
    pub fn count_immediate(&self, group: Group) {
        self.immediate[group as usize].add(1);
    }

    /// Records the duration of the turn for all commands that were answered in it without the batch.
    pub fn record_turn(&self, us: u64) {
        for (count, durations) in self.immediate.iter().zip(&self.durations_us) {
            match count.take() {
                0 => {}
                count => durations.add(us, count),
            }
        }
    }

    /// Records the duration of a command in microseconds.
    pub fn record_duration(&self, group: Group, us: u64) {
        self.durations_us[group as usize].add(us, 1);
    }

    /// Records an executed batch of `transactions` transactions.
    pub fn record_batch(&self, transactions: usize) {
        self.batches.add(transactions as u64, 1);
    }

    /// Counts received bytes.
    pub fn count_received(&self, bytes: usize) {
        self.received_bytes.add(bytes as u64);
    }

    /// Counts sent bytes.
    pub fn count_sent(&self, bytes: usize) {
        self.sent_bytes.add(bytes as u64);
    }

    /// Counts an error reply by its first word.
    pub fn count_reply(&self, reply: &Reply) {
        if let Reply::Error(text) = reply {
            self.count_error(text);
        }
    }

    #[cold]
    fn count_error(&self, text: &str) {
        let kind = text.split(' ').next().unwrap_or_default();
        let mut errors = self.errors.lock();
        let kind = if errors.len() < ERROR_KINDS { kind } else { "OTHER" };
        *errors.entry(kind.to_owned()).or_default() += 1;
    }
}

/// The counters of the front end, of all loops together.
#[derive(Debug, Default)]
pub struct Metrics {
    all_loops: Mutex<Vec<Arc<LoopCounters>>>,
    /// The tally for work measured outside the loops. The lock lets only one thread write it at a time.
    off_loop: Mutex<Option<Arc<LoopCounters>>>,
    /// Number of accepted connections.
    pub accepted: AtomicU64,
    /// Number of connections rejected because of the limit.
    pub rejected: AtomicU64,
    /// Number of connections aborted because the client did not read.
    pub slow_readers: AtomicU64,
    /// Number of long tasks that wait for a worker.
    pub work_waiting: AtomicU64,
    /// Number of long tasks being executed.
    pub work_running: AtomicU64,
    /// Number of clients that wait for changes.
    pub feed_readers: AtomicU64,
    /// Number of commands that wait for actions of other clients.
    pub tasks_waiting: AtomicU64,
}

impl Metrics {
    /// Creates the tally of another loop.
    pub fn new_loop_counters(&self) -> Arc<LoopCounters> {
        let counters: Arc<LoopCounters> = Arc::default();
        self.all_loops.lock().push(counters.clone());
        counters
    }

    /// Records the duration of long work of a group, in microseconds.
    pub fn record_work(&self, group: Group, us: u64) {
        let mut work = self.off_loop.lock();
        let counters = work.get_or_insert_with(|| self.new_loop_counters());
        counters.durations_us[group as usize].add(us, 1);
    }

    /// Returns the sums over all tallies.
    pub fn totals(&self) -> CounterTotals {
        let mut totals = CounterTotals::default();
        self.all_loops.lock().iter().for_each(|counters| totals.add(counters));
        totals
    }
}

/// Increments a counter.
pub fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Decrements a gauge.
pub fn decrement(counter: &AtomicU64) {
    counter.fetch_sub(1, Ordering::Relaxed);
}

/// The sums over all loops.
#[derive(Clone, Debug, Default)]
pub struct CounterTotals {
    /// Calls by command name, without commands that were never called.
    pub commands: BTreeMap<&'static str, u64>,
    /// Durations of commands in microseconds, by group.
    pub durations_us: [Histogram; GROUPS.len()],
    /// Histogram of the number of transactions in a batch.
    pub batches: Histogram,
    /// Number of bytes received.
    pub received_bytes: u64,
    /// Number of bytes sent.
    pub sent_bytes: u64,
    /// Number of error replies, by their first word.
    pub errors: BTreeMap<String, u64>,
}

impl CounterTotals {
    fn add(&mut self, counters: &LoopCounters) {
        for (spec, count) in table::all().zip(&counters.commands) {
            match count.look() {
                0 => {}
                count => *self.commands.entry(spec.name).or_default() += count,
            }
        }
        for (own, more) in self.durations_us.iter_mut().zip(&counters.durations_us) {
            own.merge(&more.look());
        }
        self.batches.merge(&counters.batches.look());
        self.received_bytes += counters.received_bytes.look();
        self.sent_bytes += counters.sent_bytes.look();
        for (kind, count) in counters.errors.lock().iter() {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
    }

    /// Number of all commands.
    pub fn command_count(&self) -> u64 {
        self.commands.values().sum()
    }

    /// Number of all errors.
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_loops_count_is_one_total() {
        let metrics = Metrics::default();
        let one = metrics.new_loop_counters();
        let two = metrics.new_loop_counters();
        let (position, _) = table::find(&[b"get", b"a"]).ok().unwrap();
        one.count_command(position);
        two.count_command(position);
        one.count_immediate(Group::Strings);
        one.count_immediate(Group::Strings);
        one.record_turn(100);
        two.record_duration(Group::Strings, 10_000);
        one.record_turn(999);
        one.count_reply(&Reply::error("WRONGTYPE of something"));
        two.count_reply(&Reply::error("WRONGTYPE of something else"));
        two.count_reply(&Reply::Status("OK"));
        let totals = metrics.totals();
        assert_eq!(totals.commands.into_iter().collect::<Vec<_>>(), [("get", 2)]);
        let strings = &totals.durations_us[Group::Strings as usize];
        assert_eq!((strings.count(), strings.sum), (3, 10_200), "a turn counts once");
        assert_eq!(totals.errors.into_iter().collect::<Vec<_>>(), [("WRONGTYPE".to_owned(), 2)]);
    }

    #[test]
    fn kinds_of_errors_stay_few_whatever_is_said() {
        let counters = LoopCounters::default();
        (0..1000).for_each(|i| counters.count_reply(&Reply::error(format!("E{i} no"))));
        let errors = counters.errors.lock();
        assert_eq!(errors.len(), ERROR_KINDS + 1);
        assert_eq!(errors["OTHER"], 1000 - ERROR_KINDS as u64);
    }
}

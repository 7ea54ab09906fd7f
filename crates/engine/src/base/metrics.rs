//! Metrics: counters and histograms of the database.
//!
//! ```text
//!   log stage, flush, compaction, cache, searches --relaxed adds--> Metrics --look--> Stats --> the caller
//! ```
//!
//! Counting must cost next to nothing. Histograms have one writer at a time and need no locked instruction.
//! Cache hits are counted per thread and added in steps of 64.

use crate::base::clock::Clock;
use mainstay_model::{
    Answer, Appended, Command, Failed, NewEvent, OutboxAnswer, OutboxCommand, Result, RunAnswer,
    RunCommand, SessionAnswer, SessionCommand, StateAnswer, StateCommand, StateWrite, Wrote,
};
pub use mainstay_model::{BackgroundStats, Histogram};
use std::borrow::Cow;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bucket bounds for durations in microseconds: from a fast disk's fsync to a stall of ten seconds.
pub const DURATION_BOUNDS_US: &[u64] = &[
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
    10_000_000,
];
/// Bucket bounds for numbers of transactions.
const COUNT_BOUNDS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 4_096];
/// Bucket bounds for numbers of bytes.
const SIZE_BOUNDS: &[u64] =
    &[256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];

/// Larger than any list of bounds, because values beyond the last bound need a bucket too.
const BUCKETS: usize = 16;

/// Cache hits are added to the shared counter in steps of this many.
const HIT_STEP: u32 = 64;

/// A single-writer counter that any thread may read. It needs no locked instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at zero.
    pub const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }

    /// Adds to the counter. Only one thread at a time may call this.
    #[inline]
    pub fn add(&self, by: u64) {
        self.0.store(self.look().wrapping_add(by), Ordering::Relaxed);
    }

    /// Returns the count and resets it to zero. Only the writing thread may call this.
    #[inline]
    pub fn take(&self) -> u64 {
        let taken = self.look();
        if taken > 0 {
            self.0.store(0, Ordering::Relaxed);
        }
        taken
    }

    /// The current count.
    #[inline]
    pub fn look(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A histogram that is being filled.
///
/// Only one thread at a time may add: it holds the lock of the measured component.
#[derive(Debug)]
pub struct Buckets {
    bounds: &'static [u64],
    counts: [Counter; BUCKETS],
    sum: Counter,
}

impl Buckets {
    /// An empty histogram. The bounds must be ascending. Values beyond the last bound go into an extra
    /// bucket.
    pub const fn new(bounds: &'static [u64]) -> Buckets {
        assert!(bounds.len() < BUCKETS);
        Buckets { bounds, counts: [const { Counter::new() }; BUCKETS], sum: Counter::new() }
    }

    /// Adds a value `times` times.
    pub fn add(&self, value: u64, times: u64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        self.counts[place].add(times);
        self.sum.add(value.saturating_mul(times));
    }

    /// Takes a snapshot. A concurrent [`Buckets::add`] may be partly visible in it.
    pub fn look(&self) -> Histogram {
        let counts = self.counts[..=self.bounds.len()].iter().map(Counter::look).collect();
        Histogram { bounds: Cow::Borrowed(self.bounds), counts, sum: self.sum.look() }
    }
}

/// Live metrics of one kind of background work.
#[derive(Debug, Default)]
pub struct BackgroundWork {
    count: AtomicU64,
    failures: AtomicU64,
    bytes: AtomicU64,
    us: AtomicU64,
    running: AtomicU64,
}

impl BackgroundWork {
    /// Runs `work`, which returns the number of bytes it processed, and measures it. Runs that return zero
    /// bytes are not counted.
    pub fn measure(&self, clock: &dyn Clock, work: impl FnOnce() -> Result<u64>) -> Result<u64> {
        self.running.fetch_add(1, Ordering::Relaxed);
        let began_us = clock.monotonic_us();
        let wrote = work();
        let took_us = clock.monotonic_us().saturating_sub(began_us);
        self.running.fetch_sub(1, Ordering::Relaxed);
        match &wrote {
            Ok(0) => return wrote,
            Ok(bytes) => {
                self.count.fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(*bytes, Ordering::Relaxed);
            }
            Err(_) => drop(self.failures.fetch_add(1, Ordering::Relaxed)),
        }
        self.us.fetch_add(took_us, Ordering::Relaxed);
        wrote
    }

    pub fn look(&self) -> BackgroundStats {
        let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        BackgroundStats {
            count: read(&self.count),
            failures: read(&self.failures),
            bytes: read(&self.bytes),
            us: read(&self.us),
            running: read(&self.running),
        }
    }
}

/// Metrics of the writer, the log, flushes and compaction.
#[derive(Debug)]
pub struct Metrics {
    /// Duration of log fsyncs.
    pub sync_us: Buckets,
    /// Transactions per group commit.
    pub group_transactions: Buckets,
    /// Bytes per group commit.
    pub group_bytes: Buckets,
    pub flush: BackgroundWork,
    pub compaction: BackgroundWork,
    /// Cells that expired. The writer counts an expiry when it writes the deletion or the next value to the
    /// log.
    pub expired_cells: Counter,
    /// Records that expired, counted like cells.
    pub expired_records: Counter,
    pub runs: RunCounters,
    pub outbox: OutboxCounters,
    pub keyed: KeyedCounters,
    pub sessions: SessionCounters,
}

/// Outcomes of one kind of keyed-state write.
#[derive(Debug, Default)]
pub struct WriteCounters {
    /// The write was newer than the stored value.
    pub applied: Counter,
    /// The write was older than the stored value, or a duplicate.
    pub stale: Counter,
    /// The write waits until its version is sealed.
    pub waiting: Counter,
    /// The base of the merge had changed meanwhile.
    pub moved: Counter,
}

impl WriteCounters {
    fn count(&self, wrote: Wrote) {
        match wrote {
            Wrote::Applied => self.applied.add(1),
            Wrote::Waiting => self.waiting.add(1),
            Wrote::Moved => self.moved.add(1),
            _ => self.stale.add(1),
        }
    }
}

/// Keyed-state metrics.
#[derive(Debug, Default)]
pub struct KeyedCounters {
    pub puts: WriteCounters,
    pub deletes: WriteCounters,
    /// Appends to item logs.
    pub items: WriteCounters,
    /// Results of merge functions.
    pub merges: WriteCounters,
    /// Seals whose frontier reached the requested version.
    pub seals: Counter,
    /// Waiting writes that a seal has settled.
    pub settled: Counter,
    /// Snapshots started. Any thread adds to it, so it is not a [`Counter`].
    pub snapshots: AtomicU64,
    /// Spaces replaced by a snapshot.
    pub restores: Counter,
    /// Entries written by restores, including pieces of restores that were abandoned.
    pub restored_entries: Counter,
    pub dropped: Counter,
    /// Generations of spaces whose data is completely deleted.
    pub reaped: Counter,
}

impl KeyedCounters {
    fn count_answer(&self, command: &StateCommand, answer: &Answer) {
        match (command, answer) {
            (StateCommand::Write { writes, .. }, Answer::State(answer)) => {
                if let StateAnswer::Wrote(all) = &**answer {
                    writes
                        .iter()
                        .zip(all)
                        .for_each(|(write, wrote)| self.count_write(write, *wrote));
                }
            }
            (StateCommand::Seal { .. }, Answer::State(answer)) => {
                if let StateAnswer::Sealed { settled, done } = **answer {
                    self.settled.add(settled);
                    self.seals.add(u64::from(done));
                }
            }
            (StateCommand::Restore { ends, .. }, Answer::Count(entries)) => {
                self.restored_entries.add(*entries);
                self.restores.add(u64::from(*ends));
            }
            (StateCommand::Drop { .. }, Answer::Did(did)) => self.dropped.add(u64::from(*did)),
            (command, _) => self.count_read(command),
        }
    }

    fn count_write(&self, write: &StateWrite, wrote: Wrote) {
        match write {
            StateWrite::Put { .. } => self.puts.count(wrote),
            StateWrite::Delete { .. } => self.deletes.count(wrote),
            StateWrite::Append { .. } => self.items.count(wrote),
            StateWrite::Merge { .. } => self.merges.count(wrote),
            _ => {}
        }
    }

    /// Counts a snapshot at its first page.
    pub fn count_read(&self, command: &StateCommand) {
        if let StateCommand::Dump { after: None, .. } = command {
            self.count_snapshot();
        }
    }

    pub fn count_snapshot(&self) {
        self.snapshots.fetch_add(1, Ordering::Relaxed);
    }
}

/// Run metrics.
#[derive(Debug, Default)]
pub struct RunCounters {
    /// Events appended.
    pub appended: Counter,
    /// Appends with an idempotency key that the run already had.
    pub repeated: Counter,
    /// Appends with a known idempotency key and different content.
    pub conflicts: Counter,
    /// Alerts: events that could not follow the events before them.
    pub alerts: Counter,
    pub deleted: Counter,
    /// Runs whose data is completely deleted.
    pub reaped: Counter,
    /// Readers that wait for an event now. Any thread adds to it, so it is not a [`Counter`].
    pub tails: AtomicU64,
}

/// Outbox metrics.
#[derive(Debug, Default)]
pub struct OutboxCounters {
    /// Messages written.
    pub put: Counter,
    /// Messages handed out by claims.
    pub claimed: Counter,
    /// Messages acknowledged.
    pub acked: Counter,
    /// Failed deliveries.
    pub failed: Counter,
    /// Messages moved to the dead letters.
    pub buried: Counter,
    /// Dead letters queued again.
    pub replayed: Counter,
}

/// Session metrics.
#[derive(Debug, Default)]
pub struct SessionCounters {
    pub opened: Counter,
    pub closed: Counter,
    /// Sessions whose lease expired.
    pub expired: Counter,
    /// Requests executed.
    pub executed: Counter,
    /// Requests answered from a stored response. Any thread adds to it, so it is not a [`Counter`].
    pub repeated: AtomicU64,
    /// Repeated requests whose response was already evicted.
    pub evicted: Counter,
    /// Server requests sent for the first time.
    pub sent: Counter,
    /// Server requests dropped because the session did not exist.
    pub dropped: Counter,
    /// Server requests acknowledged.
    pub acknowledged: Counter,
    /// Server requests handed out for another delivery.
    pub retried: Counter,
}

impl SessionCounters {
    /// Counts the outcome of a committed session command.
    fn count_answer(&self, command: &SessionCommand, answer: &Answer) {
        match (command, answer) {
            (SessionCommand::Acknowledge { .. }, Answer::Count(count)) => {
                self.acknowledged.add(*count);
            }
            (_, Answer::Session(answer)) => match &**answer {
                SessionAnswer::Sent(Some(_)) => self.sent.add(1),
                SessionAnswer::Sent(None) => self.dropped.add(1),
                SessionAnswer::Retry(requests) => self.retried.add(requests.len() as u64),
                _ => {}
            },
            _ => {}
        }
    }
}

impl Metrics {
    /// Counts the outcome of a committed command on runs, an outbox, keyed state or sessions.
    pub fn count_answer(&self, command: &Command, answer: &Answer) {
        let outbox = &self.outbox;
        match (command, answer) {
            (Command::Run(command), Answer::Run(answer)) => {
                self.runs.count_answer(answer);
                outbox.put.add(messages_with(command, answer));
            }
            (Command::State(command), answer) => self.keyed.count_answer(command, answer),
            (Command::Session(command), answer) => self.sessions.count_answer(command, answer),
            (Command::Outbox(OutboxCommand::Claim { .. }), Answer::Outbox(answer)) => {
                if let OutboxAnswer::Messages(messages) = &**answer {
                    outbox.claimed.add(messages.len() as u64);
                }
            }
            (Command::Outbox(OutboxCommand::Ack { .. }), Answer::Count(count)) => {
                outbox.acked.add(*count);
            }
            (Command::Outbox(OutboxCommand::Replay { .. }), Answer::Did(did)) => {
                outbox.replayed.add(u64::from(*did));
            }
            (Command::Outbox(_), Answer::Outbox(answer)) => match &**answer {
                OutboxAnswer::Put(_) => outbox.put.add(1),
                OutboxAnswer::Failed(failed) => {
                    outbox.failed.add(u64::from(*failed != Failed::Unknown));
                }
                _ => {}
            },
            _ => {}
        }
    }
}

/// The number of messages that the new events of a command carried.
fn messages_with(command: &RunCommand, answer: &RunAnswer) -> u64 {
    let sent = |(event, told): (&NewEvent, &Appended)| event.message.is_some() && told.persisted;
    match (command, answer) {
        (RunCommand::Append { event, .. }, RunAnswer::Appended(told)) => {
            u64::from(sent((event, told)))
        }
        (RunCommand::Bootstrap { events, .. }, RunAnswer::AppendedAll(told)) => {
            events.iter().zip(told).filter(|pair| sent(*pair)).count() as u64
        }
        _ => 0,
    }
}

impl RunCounters {
    fn count_answer(&self, answer: &RunAnswer) {
        let all = match answer {
            RunAnswer::Appended(one) => std::slice::from_ref(one),
            RunAnswer::AppendedAll(all) => all,
            _ => return,
        };
        for appended in all.iter().filter(|appended| appended.idempotent) {
            self.repeated.add(1);
            self.conflicts.add(u64::from(appended.conflict));
        }
    }

    /// Counts a waiting reader until the returned guard is dropped.
    pub fn waiting(&self) -> impl Drop {
        self.tails.fetch_add(1, Ordering::Relaxed);
        TailGuard(&self.tails)
    }
}

struct TailGuard<'w>(&'w AtomicU64);

impl Drop for TailGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            sync_us: Buckets::new(DURATION_BOUNDS_US),
            group_transactions: Buckets::new(COUNT_BOUNDS),
            group_bytes: Buckets::new(SIZE_BOUNDS),
            flush: BackgroundWork::default(),
            compaction: BackgroundWork::default(),
            expired_cells: Counter::new(),
            expired_records: Counter::new(),
            runs: RunCounters::default(),
            outbox: OutboxCounters::default(),
            keyed: KeyedCounters::default(),
            sessions: SessionCounters::default(),
        }
    }
}

thread_local! {
    static HITS: Cell<u32> = const { Cell::new(0) };
}

/// Hits and misses of the cache of current values. Aligned to avoid false sharing.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CacheCounters {
    hits: AtomicU64,
    misses: AtomicU64,
}

impl CacheCounters {
    /// Counts a hit: every 64th hit of a thread adds 64.
    #[inline]
    pub fn hit(&self) {
        let hits = HITS.with(|hits| {
            hits.set(hits.get().wrapping_add(1));
            hits.get()
        });
        if hits.is_multiple_of(HIT_STEP) {
            self.hits.fetch_add(u64::from(HIT_STEP), Ordering::Relaxed);
        }
    }

    /// Counts a miss. A lookup in a store follows.
    #[inline]
    pub fn miss(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns hits and misses.
    pub fn look(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }
}

/// Counters of record searches by access path. Aligned to avoid false sharing.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SearchCounters {
    by_index: AtomicU64,
    walked: AtomicU64,
    listed: AtomicU64,
    /// Entries and records that searches visited. Tests check the amount of work with it.
    #[cfg(any(test, feature = "test-hooks"))]
    passed: AtomicU64,
}

/// The access path of a record search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchPath {
    /// An index returned all candidates.
    Index,
    /// All records under the prefix were scanned, in at least one layer of the branch.
    Walk,
    /// The search had no filters: all records were wanted.
    List,
}

impl SearchCounters {
    /// Counts a search.
    pub fn count(&self, way: SearchPath) {
        let count = match way {
            SearchPath::Index => &self.by_index,
            SearchPath::Walk => &self.walked,
            SearchPath::List => &self.listed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an entry or record that a search visited.
    #[inline]
    pub fn pass(&self) {
        #[cfg(any(test, feature = "test-hooks"))]
        self.passed.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of entries and records that searches visited.
    #[cfg(any(test, feature = "test-hooks"))]
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Returns the number of searches by index, by scan and without filters.
    pub fn look(&self) -> [u64; 3] {
        [&self.by_index, &self.walked, &self.listed].map(|count| count.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::ManualClock;
    use mainstay_model::{Code, Error};
    use std::time::Duration;

    #[test]
    fn a_value_comes_into_the_first_bucket_that_is_not_too_small_for_it() {
        let buckets = Buckets::new(&[10, 20]);
        for value in [0, 10, 11, 20, 21, u64::MAX / 2] {
            buckets.add(value, 1);
        }
        buckets.add(15, 5);
        let seen = buckets.look();
        assert_eq!(seen.counts, [2, 7, 2]);
        assert_eq!((seen.count(), seen.sum), (11, u64::MAX / 2 + 62 + 75));
    }

    #[test]
    fn histograms_of_several_threads_are_added_up() {
        let one = Buckets::new(&[10]);
        let other = Buckets::new(&[10]);
        one.add(1, 2);
        other.add(100, 3);
        let mut all = Histogram::default();
        all.merge(&one.look());
        all.merge(&other.look());
        assert_eq!((all.counts.as_slice(), all.sum), ([2, 3].as_slice(), 302));
    }

    #[test]
    fn work_is_timed_and_what_failed_or_did_nothing_is_not_taken_for_done() {
        let work = BackgroundWork::default();
        let clock = ManualClock::new(0);
        let took = |us: u64, gives: Result<u64>| {
            work.measure(&*clock, || {
                assert_eq!(work.look().running, 1);
                clock.advance(Duration::from_micros(us));
                gives
            })
        };
        assert_eq!(took(5, Ok(100)), Ok(100));
        assert!(took(7, Err(Error::new(Code::Io, "gone"))).is_err());
        assert_eq!(took(9, Ok(0)), Ok(0));
        let expected = BackgroundStats { count: 1, failures: 1, bytes: 100, us: 12, running: 0 };
        assert_eq!(work.look(), expected);
    }

    #[test]
    fn hits_are_counted_in_steps() {
        let hits = CacheCounters::default();
        (0..1000).for_each(|_| hits.hit());
        let seen = hits.look().0;
        assert!((936..=1000).contains(&seen) && seen.is_multiple_of(64), "{seen}");
    }
}

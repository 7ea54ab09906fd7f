//! Figures: what the database counts and measures while it works.
//!
//! ```text
//!   log stage, flush, compaction, cache, searches --relaxed adds--> Figures --look--> Stats --> whoever asks
//! ```
//!
//! Counting must cost next to nothing: histograms have one writer at a time and need no locked
//! instruction, and a hit of the cache is counted on its own thread, sixty-four at a time.

use crate::base::clock::Clock;
use mainstay_model::{
    Answer, Appended, Command, Failed, NewEvent, OutboxAnswer, OutboxCommand, Result, RunAnswer,
    RunCommand, SessionAnswer, SessionCommand, StateAnswer, StateCommand, StateWrite, Wrote,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Durations in microseconds: from a fast disk's sync to a stall of ten seconds.
pub const DURATION_BOUNDS_US: &[u64] = &[
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
    10_000_000,
];
/// Numbers of transactions.
const COUNT_BOUNDS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 4_096];
/// Numbers of bytes.
const SIZE_BOUNDS: &[u64] =
    &[256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];

/// More buckets than any list of bounds needs.
const BUCKETS: usize = 16;

/// So many hits of the cache are counted at once.
const HIT_STEP: u32 = 64;

/// A count that one thread at a time adds to, and any may look at: it takes no locked instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Nothing yet.
    pub const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }

    /// Adds, as the only writer.
    #[inline]
    pub fn add(&self, by: u64) {
        self.0.store(self.look().wrapping_add(by), Ordering::Relaxed);
    }

    /// Takes what was added, as the only writer.
    #[inline]
    pub fn take(&self) -> u64 {
        let taken = self.look();
        if taken > 0 {
            self.0.store(0, Ordering::Relaxed);
        }
        taken
    }

    /// What was added so far.
    #[inline]
    pub fn look(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Values counted by size, while they come in.
///
/// One thread at a time may add: whoever adds holds the lock of what is measured.
#[derive(Debug)]
pub struct Buckets {
    bounds: &'static [u64],
    counts: [Counter; BUCKETS],
    sum: Counter,
}

impl Buckets {
    /// Empty ones. Bounds ascend, and values beyond the last have a bucket, too.
    pub const fn new(bounds: &'static [u64]) -> Buckets {
        assert!(bounds.len() < BUCKETS);
        Buckets { bounds, counts: [const { Counter::new() }; BUCKETS], sum: Counter::new() }
    }

    /// Adds a value so many times.
    pub fn add(&self, value: u64, times: u64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        self.counts[place].add(times);
        self.sum.add(value.saturating_mul(times));
    }

    /// What was added so far. Somebody may be adding: then the last values are in part of it.
    pub fn look(&self) -> Histogram {
        let counts = self.counts[..=self.bounds.len()].iter().map(Counter::look).collect();
        Histogram { bounds: Cow::Borrowed(self.bounds), counts, sum: self.sum.look() }
    }
}

/// Values counted by size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Histogram {
    /// Each bucket's largest value; a last bucket without one follows.
    pub bounds: Cow<'static, [u64]>,
    /// How many values each bucket has.
    pub counts: Vec<u64>,
    /// All values together.
    pub sum: u64,
}

impl Histogram {
    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Takes in what another one with the same bounds has.
    pub fn merge(&mut self, other: &Histogram) {
        if self.counts.is_empty() {
            *self = other.clone();
            return;
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, more)| *own += more);
        self.sum += other.sum;
    }
}

/// Work in the background, while it is done.
#[derive(Debug, Default)]
pub(crate) struct BackgroundWork {
    count: AtomicU64,
    failures: AtomicU64,
    bytes: AtomicU64,
    us: AtomicU64,
    running: AtomicU64,
}

impl BackgroundWork {
    /// Does a piece of work that gives what it wrote, and measures it. Nothing written is nothing done.
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

/// Work in the background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BackgroundStats {
    /// Pieces of work that were done.
    pub count: u64,
    /// Pieces that failed.
    pub failures: u64,
    /// Bytes that went in.
    pub bytes: u64,
    /// The time it took, failures included.
    pub us: u64,
    /// Pieces under way.
    pub running: u64,
}

/// What the writer, the log, the flush and compaction count.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// How long syncs took.
    pub sync_us: Buckets,
    /// Transactions that shared a write of the log.
    pub group_transactions: Buckets,
    /// Bytes of such a write.
    pub group_bytes: Buckets,
    pub flush: BackgroundWork,
    pub compaction: BackgroundWork,
    /// Cells whose time was over; the writer counts them when their end is written down.
    pub expired_cells: Counter,
    /// Records whose time was over.
    pub expired_records: Counter,
    /// What is done with runs.
    pub runs: RunCounters,
    /// What is done with outboxes.
    pub outbox: OutboxCounters,
    /// What is done with keyed state.
    pub keyed: KeyedCounters,
    /// What is done with sessions.
    pub sessions: SessionCounters,
}

/// What became of writes to spaces of one sort.
#[derive(Debug, Default)]
pub(crate) struct WriteCounters {
    /// They were newer.
    pub applied: Counter,
    /// They were not, or there already.
    pub stale: Counter,
    /// They wait until their version is sealed.
    pub waiting: Counter,
    /// What they were merged with is another one.
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

/// What the writer counts of keyed state.
#[derive(Debug, Default)]
pub(crate) struct KeyedCounters {
    /// States that were put.
    pub puts: WriteCounters,
    /// States that were deleted.
    pub deletes: WriteCounters,
    /// Items of logs.
    pub items: WriteCounters,
    /// What functions have merged.
    pub merges: WriteCounters,
    /// Frontiers that are where they were asked to be.
    pub seals: Counter,
    /// Writes that had waited for that.
    pub settled: Counter,
    /// Snapshots that were begun; any thread adds to it.
    pub snapshots: AtomicU64,
    /// Spaces that were replaced by a snapshot.
    pub restores: Counter,
    /// Entries that restores have written, those of pieces included that were given up.
    pub restored_entries: Counter,
    /// Spaces that were dropped.
    pub dropped: Counter,
    /// Generations of spaces of which nothing is left.
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

    /// A snapshot is read page by page, and counted with the first.
    pub fn count_read(&self, command: &StateCommand) {
        if let StateCommand::Dump { after: None, .. } = command {
            self.count_snapshot();
        }
    }

    pub fn count_snapshot(&self) {
        self.snapshots.fetch_add(1, Ordering::Relaxed);
    }
}

/// What the writer counts of runs.
#[derive(Debug, Default)]
pub(crate) struct RunCounters {
    /// Events that were written.
    pub appended: Counter,
    /// Appends whose key was known.
    pub repeated: Counter,
    /// Those of them that said something else.
    pub conflicts: Counter,
    /// Events that could not follow those before them.
    pub alerts: Counter,
    /// Runs that were deleted.
    pub deleted: Counter,
    /// Runs of which nothing is left.
    pub reaped: Counter,
    /// Those who wait for an event; any thread adds to it.
    pub tails: AtomicU64,
}

/// What the writer counts of outboxes.
#[derive(Debug, Default)]
pub(crate) struct OutboxCounters {
    /// Messages that were written.
    pub put: Counter,
    /// Messages that were handed out.
    pub claimed: Counter,
    /// Messages that were delivered.
    pub acked: Counter,
    /// Deliveries that failed.
    pub failed: Counter,
    /// Messages that were given up.
    pub buried: Counter,
    /// Dead messages that wait again.
    pub replayed: Counter,
}

/// What the writer counts of sessions.
#[derive(Debug, Default)]
pub(crate) struct SessionCounters {
    /// Sessions that were opened.
    pub opened: Counter,
    /// Sessions that were closed.
    pub closed: Counter,
    /// Sessions whose leases were over.
    pub expired: Counter,
    /// Requests that were executed.
    pub executed: Counter,
    /// Requests that were answered from what is kept; any thread adds to it.
    pub repeated: AtomicU64,
    /// Requests whose responses were gone.
    pub evicted: Counter,
    /// Requests of the server that were sent, for the first time.
    pub sent: Counter,
    /// Those that were dropped because there was no such session.
    pub dropped: Counter,
    /// Those that were acknowledged.
    pub acknowledged: Counter,
    /// Those that were given out to be sent again.
    pub retried: Counter,
}

impl SessionCounters {
    /// Counts what a committed command on sessions answered.
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
    /// Counts what a committed command on runs, an outbox or keyed state answered.
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

/// How many messages came with the new events of a command.
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

    /// Counts somebody who waits for an event, until what this gives is dropped.
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

/// Hits and misses of the table of current values, on a cache line of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CacheCounters {
    hits: AtomicU64,
    misses: AtomicU64,
}

impl CacheCounters {
    /// Counts a hit: every 64th of a thread is counted as 64.
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

    /// Counts a miss, which is about to look into a store.
    #[inline]
    pub fn miss(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// Hits and misses so far.
    pub fn look(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }
}

/// How searches for records went about it, on a cache line of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct SearchCounters {
    by_index: AtomicU64,
    walked: AtomicU64,
    listed: AtomicU64,
    /// Entries and records that searches came by, counted where tests ask how much work there was.
    #[cfg(test)]
    passed: AtomicU64,
}

/// The way of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchPath {
    /// An index gave all candidates.
    Index,
    /// All records under the prefix were looked at, in one layer of the branch at least.
    Walk,
    /// There were no filters: all records were wanted.
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

    /// Notes that a search came by an entry or a record.
    #[inline]
    pub fn pass(&self) {
        #[cfg(test)]
        self.passed.fetch_add(1, Ordering::Relaxed);
    }

    /// By how many entries and records searches came.
    #[cfg(test)]
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// How many went by an index, how many walked, how many had no filters.
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
        let (one, other) = (Buckets::new(&[10]), Buckets::new(&[10]));
        one.add(1, 2);
        other.add(100, 3);
        let mut all = Histogram::default();
        all.merge(&one.look());
        all.merge(&other.look());
        assert_eq!((all.counts.as_slice(), all.sum), ([2, 3].as_slice(), 302));
    }

    #[test]
    fn work_is_timed_and_what_failed_or_did_nothing_is_not_taken_for_done() {
        let (work, clock) = (BackgroundWork::default(), ManualClock::new(0));
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

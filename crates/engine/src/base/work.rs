//! Work budgets: limits on the entries and bytes of one transaction, and the flag that cancels long reads.
//!
//! ```text
//!   View { budget } --find--> count_found, --walk, scan, versions--> Meter::pass, per entry
//!      Transaction(&Work)   limits on entries and bytes; over them TooLarge
//!      Reader               no limits, but it can be stopped
//!      Unlimited            maintenance and the doctor
//! ```
//!
//! Every read of stored entries goes through a [`View`](crate::mvcc::view::View), and a view cannot be made
//! without a budget, so no command can forget to count.

use mainstay_model::{Code, Error, Result, Step};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The stop flag is checked once per this many entries, so that an event loop can abort long reads.
const STOP_INTERVAL: u64 = 256;

/// Skipping this many of the transaction's own writes costs as much as reading one entry.
const OWN_WRITES_PER_ENTRY: usize = 32;

/// Inside the writer, an entry visited by a scan costs as much as this many point lookups. Lookups are
/// cheaper because their number is bounded by the number of commands, which has its own limit.
const FOUND_PER_WALKED: u64 = 4;

/// Limits on the work of one transaction.
#[derive(Clone, Copy, Debug)]
pub struct WorkLimits {
    /// Entries that the transaction may read.
    pub entries: u64,
    /// Bytes of entries that it may read.
    pub bytes: u64,
    /// Entries that its scans may visit while it holds the writer.
    pub writer_entries: u64,
    /// Maximum number of commands, if it writes.
    pub commands: usize,
    /// Bytes that it may write, counting writes that later writes of the transaction replace.
    pub write_bytes: usize,
}

/// Reads that a write depends on and that may be long: the first of each kind per transaction is not counted.
#[derive(Clone, Copy, Debug)]
pub enum Exempt {
    /// For an append: the events after the last snapshot of a run.
    Fold = 1,
    /// For a claim: the outbox queue up to the first message that is due.
    Claim = 2,
}

/// Counts the entries and bytes that one transaction has read so far.
///
/// Only one thread counts at a time. The counters are atomic only so that threads can share snapshots. They
/// use plain loads and stores instead of atomic additions, so they cost no more than an integer.
pub struct WorkMeter {
    entries: AtomicU64,
    bytes: AtomicU64,
    /// The entry count at which the limit or the stop flag is checked next.
    check_at: AtomicU64,
    limits: WorkLimits,
    in_writer: bool,
    /// Bit set of the [`Exempt`] kinds already used.
    exempted: AtomicU8,
}

impl WorkMeter {
    /// The meter of a transaction that reads a snapshot, outside the writer.
    pub fn outside(limits: WorkLimits) -> WorkMeter {
        WorkMeter::new(limits, false)
    }

    /// The meter of a transaction that runs in the writer.
    pub fn in_writer(limits: WorkLimits) -> WorkMeter {
        WorkMeter::new(limits, true)
    }

    fn new(limits: WorkLimits, in_writer: bool) -> WorkMeter {
        let (entries, bytes, check_at) = Default::default();
        let exempted = AtomicU8::new(0);
        let work = WorkMeter { entries, bytes, check_at, limits, in_writer, exempted };
        work.begin();
        work
    }

    /// Resets the counters for the next transaction.
    pub fn begin(&self) {
        self.entries.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.exempted.store(0, Ordering::Relaxed);
        self.check_at.store(self.next_check(0), Ordering::Relaxed);
    }

    /// Returns whether this read is exempt from counting: the first of its kind is.
    pub fn take_exemption(&self, exempt: Exempt) -> bool {
        let exempted = self.exempted.load(Ordering::Relaxed);
        self.exempted.store(exempted | exempt as u8, Ordering::Relaxed);
        exempted & exempt as u8 == 0
    }

    /// Rejects a writing transaction with so many commands that it would hold the writer too long.
    pub fn check_steps(&self, steps: &[Step]) -> Result<()> {
        let limit = self.limits.commands;
        if steps.len() <= limit || steps.iter().all(|step| step.command.is_read()) {
            return Ok(());
        }
        let message = format!(
            "{} commands: a transaction that writes has at most {limit}: make it several, or raise \
             `database.transaction_commands`",
            steps.len()
        );
        Err(Error::new(Code::TransactionTooLarge, message))
    }

    /// Rejects a further command once this many bytes are written: each command on a large record writes the
    /// whole record.
    #[inline]
    pub fn check_written(&self, bytes: usize) -> Result<()> {
        if bytes > self.limits.write_bytes { Err(self.wrote_too_much()) } else { Ok(()) }
    }

    #[cold]
    fn wrote_too_much(&self) -> Error {
        let message = format!(
            "the transaction writes more than {} bytes, those counted that it overwrites itself: make it several, or raise \
             `database.transaction_write_bytes`",
            self.limits.write_bytes
        );
        Error::new(Code::TransactionTooLarge, message)
    }

    fn entries_limit(&self) -> u64 {
        let WorkLimits { entries, writer_entries, .. } = self.limits;
        if self.in_writer {
            writer_entries.min(entries).saturating_mul(FOUND_PER_WALKED)
        } else {
            entries
        }
    }

    fn next_check(&self, entries: u64) -> u64 {
        let over = self.entries_limit().saturating_add(1);
        if self.in_writer { over } else { over.min(entries + STOP_INTERVAL) }
    }

    #[inline]
    fn count(&self, entries: u64, bytes: u64) -> Result<()> {
        let entries = self.entries.load(Ordering::Relaxed) + entries;
        let bytes = self.bytes.load(Ordering::Relaxed) + bytes;
        self.entries.store(entries, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        if entries >= self.check_at.load(Ordering::Relaxed) || bytes > self.limits.bytes {
            return self.check(entries, bytes);
        }
        Ok(())
    }

    #[inline]
    fn count_walked(&self, entries: u64, bytes: u64) -> Result<()> {
        self.count(if self.in_writer { entries * FOUND_PER_WALKED } else { entries }, bytes)
    }

    #[cold]
    fn check(&self, entries: u64, bytes: u64) -> Result<()> {
        if entries > self.entries_limit() {
            return Err(self.too_many_entries());
        }
        if bytes > self.limits.bytes {
            return Err(too_many_bytes(self.limits.bytes));
        }
        self.check_at.store(self.next_check(entries), Ordering::Relaxed);
        // The thread in the writer also runs other clients' transactions, so its own stop flag does not apply
        // to them.
        if self.in_writer { Ok(()) } else { check_stop() }
    }

    fn too_many_entries(&self) -> Error {
        let WorkLimits { entries, writer_entries, .. } = self.limits;
        let message = if self.in_writer && writer_entries < entries {
            format!(
                "the transaction passes more than {writer_entries} entries while it holds the writer, or looks up \
                 {FOUND_PER_WALKED} times as many: make it several, or raise `database.transaction_writer_entries`"
            )
        } else {
            format!(
                "the transaction looks at more than {entries} entries: make it several, or raise \
                 `database.transaction_entries`"
            )
        };
        Error::new(Code::TransactionTooLarge, message)
    }
}

#[cold]
fn too_many_bytes(limit: u64) -> Error {
    let message = format!(
        "the transaction reads more than {limit} bytes: make it several, or raise \
         `database.transaction_read_bytes`"
    );
    Error::new(Code::TransactionTooLarge, message)
}

/// The budget that the reads of a view count towards.
#[derive(Clone, Copy)]
pub enum Budget<'a> {
    /// Not counted.
    Unlimited,
    /// A read outside of transactions: it has no size limit, but it can be cancelled.
    Reader,
    /// Counts towards the limits of a transaction.
    Transaction(&'a WorkMeter),
    /// Like `Transaction`, but a scanned entry costs only as much as a lookup, because others decide how many
    /// entries it visits.
    Lookups(&'a WorkMeter),
}

impl Budget<'_> {
    /// Counts an entry of `bytes` bytes that was found by its key.
    #[inline]
    pub fn count_found(self, bytes: usize) -> Result<()> {
        match self {
            Budget::Transaction(work) | Budget::Lookups(work) => work.count(1, bytes as u64),
            Budget::Reader | Budget::Unlimited => Ok(()),
        }
    }

    /// Counts own writes that a scan skipped.
    #[inline]
    pub fn count_own(self, writes: usize) -> Result<()> {
        self.count_walked((writes / OWN_WRITES_PER_ENTRY) as u64, 0)
    }

    #[inline]
    fn count_walked(self, entries: u64, bytes: usize) -> Result<()> {
        match self {
            Budget::Transaction(work) => work.count_walked(entries, bytes as u64),
            Budget::Lookups(work) => work.count(entries, bytes as u64),
            Budget::Reader | Budget::Unlimited => Ok(()),
        }
    }

    /// Returns whether scans must check the stop flag themselves.
    pub fn is_reader(self) -> bool {
        matches!(self, Budget::Reader)
    }
}

/// Counts the rows of one scan and stops it once the budget is used up.
pub(crate) struct Meter<'a> {
    budget: Budget<'a>,
    /// Rows read since a `Reader` last checked the stop flag.
    unchecked: u64,
}

impl<'a> Meter<'a> {
    pub fn new(budget: Budget<'a>) -> Meter<'a> {
        Meter { budget, unchecked: 0 }
    }

    /// Counts a row of `bytes` bytes.
    #[inline]
    pub fn pass(&mut self, bytes: usize) -> Result<()> {
        if self.budget.is_reader() {
            self.unchecked += 1;
            if self.unchecked >= STOP_INTERVAL {
                self.unchecked = 0;
                return check_stop();
            }
            return Ok(());
        }
        self.budget.count_walked(1, bytes)
    }
}

thread_local! {
    static STOP: RefCell<Option<Rc<dyn Fn() -> bool>>> = const { RefCell::new(None) };
}

/// Runs `work` on this thread and cancels it once `stop` returns true: its reads then fail with `Cancelled`.
/// Reads call `stop` every few hundred entries. A transaction that has reached the writer is no longer
/// cancelled.
///
/// ```
/// use mainstay::{Code, Database};
/// let db = Database::memory()?;
/// db.transaction(|t| (0..5_000).try_for_each(|i| t.set(&format!("{i:04}"), i).map(drop)))?;
/// let listed = mainstay::until_stopped(|| true, || db.cells().list("", None, 10_000));
/// assert_eq!(listed.unwrap_err().code(), Code::Cancelled);
/// # Ok::<(), mainstay::Error>(())
/// ```
pub fn until_stopped<T>(stop: impl Fn() -> bool + 'static, work: impl FnOnce() -> T) -> T {
    /// Restores the previous stop function, also if `work` panics.
    struct Restore(Option<Rc<dyn Fn() -> bool>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            let before = self.0.take();
            STOP.with(|current| *current.borrow_mut() = before);
        }
    }
    let before = STOP.with(|current| current.borrow_mut().replace(Rc::new(stop)));
    let _restore = Restore(before);
    work()
}

#[cold]
fn check_stop() -> Result<()> {
    let stop = STOP.with(|current| current.borrow().clone());
    if stop.is_some_and(|stop| stop()) {
        let message = "the read was stopped: its client is gone, or the server ends";
        return Err(Error::new(Code::Cancelled, message));
    }
    Ok(())
}

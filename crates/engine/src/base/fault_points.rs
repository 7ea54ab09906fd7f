//! Fault injection: deliberate bugs that prove the tests can find them.
//!
//! Only the test feature `planted` compiles them in.

macro_rules! bugs {
    ($($(#[$doc:meta])* $bug:ident,)*) => {
        /// A deliberate bug that a test can switch on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum InjectedFault { $($(#[$doc])* $bug,)* }

        impl InjectedFault {
            /// All faults, in declaration order.
            #[cfg(feature = "planted")]
            pub const ALL: &[InjectedFault] = &[$(InjectedFault::$bug,)*];
        }
    };
}

bugs! {
    /// Answers a group after the write and before its fsync.
    AnswerBeforeSync,
    /// Compare-and-swap always succeeds.
    CasAlwaysWins,
    /// Ignores the checksums of log frames.
    ChecksumIgnored,
    /// The executor's holder does not drain the requests queued while it held the executor.
    CombineOnce,
    /// The counter of a deleted cell restarts at one.
    CounterLostOnDelete,
    /// Reads judge expiry by the wall clock instead of by the timestamp of their snapshot.
    ExpiryByWallClock,
    /// The change feed drops some transactions.
    FeedSkips,
    /// Replay applies only the first effect of each transaction.
    FirstEffectOnly,
    /// The log thread ignores transactions queued during its fsync.
    GatheredForgotten,
    /// Writes into a range that the transaction has read do not cause a conflict.
    GuardRangeForgotten,
    /// Writes continue after a failed fsync.
    LatchForgotten,
    /// Publishing a revision does not wake the threads that wait for it.
    ListenersNotTold,
    /// The log thread is not woken when there is work for it.
    LogNotWoken,
    /// Recovery keeps index entries of revisions that a damaged log has lost, after an interrupted flush
    /// wrote them.
    LostComesBack,
    /// The flush mark is one revision higher than the stores.
    MarkTooFar,
    /// A backup includes revisions that are not yet durable.
    NoSyncBeforeBackup,
    /// Trim floors advance past a branch whose removal is not yet durable.
    NoSyncBeforeFloors,
    /// Flushes a write buffer before the log that covers it is synced.
    NoSyncBeforeFlush,
    /// Starts the next log segment while the previous one is not synced.
    NoSyncBeforeRoll,
    /// Renames a rebuilt table manifest into place before syncing it.
    NoSyncOfCurrent,
    /// Does not sync the directory after renaming a rebuilt table manifest.
    NoSyncOfCurrentName,
    /// Closing the database does not sync writes that were made without a durability promise.
    NoSyncOfClosed,
    /// Does not sync the part of a damaged segment that a salvage zeroes.
    NoSyncOfCut,
    /// Renames the database file into place before syncing it.
    NoSyncOfIdentity,
    /// Does not sync the directory after renaming the database file.
    NoSyncOfIdentityName,
    /// Does not sync the directory of an existing database at open.
    NoSyncOfKnown,
    /// Acknowledges a group without syncing the log.
    NoSyncOfLog,
    /// Renames the flush mark into place before syncing it.
    NoSyncOfMark,
    /// Does not sync the directory after renaming the flush mark.
    NoSyncOfMarkName,
    /// Does not sync the directory after a salvage moves an index aside.
    NoSyncOfMovedIndex,
    /// Does not sync the directory after a salvage moves a segment aside.
    NoSyncOfMovedSegment,
    /// Does not sync the subdirectories of a new database.
    NoSyncOfNewDirectory,
    /// Does not sync the parent directory of a new database.
    NoSyncOfParent,
    /// Renames a backup into place before syncing it.
    NoSyncOfPart,
    /// Does not sync the directory after renaming a backup.
    NoSyncOfPartName,
    /// Trims several segments without a directory sync after each.
    NoSyncOfRemovedSegments,
    /// Does not sync the flush mark that was read at open.
    NoSyncOfReadMark,
    /// Does not sync the directory after a new index or log replaces another.
    NoSyncOfRename,
    /// Does not sync the log of a restored database.
    NoSyncOfRestoredLog,
    /// Recovery rewrites frames that are not proven synced, and does not sync them.
    NoSyncOfRewritten,
    /// Recovery does not sync the directory of the segments that it read.
    NoSyncOfRewrittenName,
    /// Renames the copy of a damaged segment into place before syncing it.
    NoSyncOfSalvagedCopy,
    /// Does not sync the directory after renaming the copy of a damaged segment.
    NoSyncOfSalvagedCopyName,
    /// Does not sync the table manifest that was read at open.
    NoSyncOfReadTables,
    /// A salvage does not first sync the directory of the database.
    NoSyncOfSalvagedDatabase,
    /// Does not sync the flush mark that a salvage relies on.
    NoSyncOfSalvagedMark,
    /// Renames a segment into place before syncing its header.
    NoSyncOfSegment,
    /// Does not sync the directory after renaming a new segment.
    NoSyncOfSegmentName,
    /// Does not sync the directory between renaming the old index aside and renaming the new index into
    /// place.
    NoSyncOfSetBack,
    /// Writes the flush mark of a new index before syncing the directory of its stores.
    NoSyncOfStores,
    /// Publishes a group before syncing it.
    PublishBeforeSync,
    /// Does not store the deduplication receipt of a request with an id.
    ReceiptForgotten,
    /// The in-flight counter is not decremented for transactions that failed.
    RefusedStayCounted,
    /// Executes a session request and does not store its response.
    ResponseForgotten,
    /// Assigns a revision again although its failed write may have reached the log.
    RevisionReused,
    /// A waiting thread reads its wake-up counter after it has announced its sleep, instead of before.
    RungReadLate,
    /// A sync request waits for buffer space. The flush that frees space waits for that sync, so both
    /// deadlock.
    SyncWaitsForRoom,
    /// Wakes listeners without taking their lock, so a wake-up between their check and their wait is lost.
    ToldWithoutLock,
    /// Trims the log beyond the revision that the stores hold.
    TrimTooFar,
    /// A failed group write does not undo the transactions executed on top of it.
    UndoForgetsLater,
}

#[cfg(feature = "planted")]
static PLANTED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// Activates a fault in all databases of the process, or deactivates it with `None`.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<InjectedFault>) {
    let number = bug.map_or(0, |bug| bug as u32 + 1);
    // Pairs with the load in `is`. The flag guards no other data.
    PLANTED.store(number, std::sync::atomic::Ordering::SeqCst);
}

/// Returns whether this fault is active.
#[cfg(feature = "planted")]
pub(crate) fn is(bug: InjectedFault) -> bool {
    // Pairs with the store in `plant`.
    PLANTED.load(std::sync::atomic::Ordering::SeqCst) == bug as u32 + 1
}

/// Always false: no fault is compiled in.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub(crate) const fn is(_: InjectedFault) -> bool {
    false
}

/// Runs `act`, unless this fault is active.
#[inline(always)]
pub fn unless<E>(bug: InjectedFault, act: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    if is(bug) { Ok(()) } else { act() }
}

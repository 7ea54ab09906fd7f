//! Bugs on purpose: the tests show that they find them.
//!
//! Without the feature `planted`, which is for tests alone, there are none.

macro_rules! bugs {
    ($($(#[$doc:meta])* $bug:ident,)*) => {
        /// A bug that is in the engine because a test asked for it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum InjectedFault { $($(#[$doc])* $bug,)* }

        impl InjectedFault {
            /// All of them.
            #[cfg(feature = "planted")]
            pub const ALL: &[InjectedFault] = &[$(InjectedFault::$bug,)*];
        }
    };
}

bugs! {
    /// A group is answered when it is written, and synced afterwards.
    AnswerBeforeSync,
    /// A compare-and-swap does not compare.
    CasAlwaysWins,
    /// Frames of the log are believed whatever their checksums say.
    ChecksumIgnored,
    /// Whoever held the executor for a moment does not look for what was queued meanwhile.
    CombineOnce,
    /// A cell that was deleted counts from one again.
    CounterLostOnDelete,
    /// A read judges expiry by the wall clock, and not by its own moment.
    ExpiryByWallClock,
    /// The feed leaves a transaction out, now and then.
    FeedSkips,
    /// Of a transaction that is replayed, one effect is.
    FirstEffectOnly,
    /// What was gathered while the log synced is not taken for work.
    GatheredForgotten,
    /// What came into a range that was read does not count.
    GuardRangeForgotten,
    /// After a failed sync writing goes on.
    LatchForgotten,
    /// Whoever waits for a revision is not told when it is published.
    ListenersNotTold,
    /// The log thread is not woken when there is work for it.
    LogNotWoken,
    /// What a damaged log has lost is left in the index, where a flush that was cut short has put it.
    LostComesBack,
    /// The mark says that the stores hold one revision more than they do.
    MarkTooFar,
    /// A backup holds what its database may still lose.
    NoSyncBeforeBackup,
    /// Floors rise over a branch whose removal may be taken back.
    NoSyncBeforeFloors,
    /// A buffer goes into the stores before the log that holds it is synced.
    NoSyncBeforeFlush,
    /// The next segment of the log is begun while the last one is not synced.
    NoSyncBeforeRoll,
    /// The list of tables of a store that is set back after a failure is not synced before it has its name.
    NoSyncOfCurrent,
    /// The name of the list of tables of a store that is set back is not synced.
    NoSyncOfCurrentName,
    /// What was written without a promise is not synced when a database is closed.
    NoSyncOfClosed,
    /// What a salvage zeroes in a damaged segment is not synced.
    NoSyncOfCut,
    /// The header of a new database gets its name before it is synced.
    NoSyncOfIdentity,
    /// The name of the header of a new database is not synced.
    NoSyncOfIdentityName,
    /// The names in the directory of a database that is opened are not synced.
    NoSyncOfKnown,
    /// A group is acknowledged without a sync of the log.
    NoSyncOfLog,
    /// The mark of the index gets its name before it is synced.
    NoSyncOfMark,
    /// The name of the mark of the index is not synced.
    NoSyncOfMarkName,
    /// An index that a salvage sets aside may have its old name again.
    NoSyncOfMovedIndex,
    /// A segment that a salvage moves aside may have its old name again.
    NoSyncOfMovedSegment,
    /// The directories of a new database are not synced.
    NoSyncOfNewDirectory,
    /// The name of the directory of a new database is not synced.
    NoSyncOfParent,
    /// A backup gets its name before it is synced.
    NoSyncOfPart,
    /// The name of a backup is not synced.
    NoSyncOfPartName,
    /// Segments are trimmed without a sync after each.
    NoSyncOfRemovedSegments,
    /// The mark that an index is opened by is not synced.
    NoSyncOfReadMark,
    /// A new index or log takes the place of another, and that is not synced.
    NoSyncOfRename,
    /// The log of a restored database is not synced.
    NoSyncOfRestoredLog,
    /// What was not proven synced is written again and not synced.
    NoSyncOfRewritten,
    /// The names of segments that were read are not synced.
    NoSyncOfRewrittenName,
    /// The copy of a damaged segment gets its name before it is synced.
    NoSyncOfSalvagedCopy,
    /// The name of the copy of a damaged segment is not synced.
    NoSyncOfSalvagedCopyName,
    /// The list of tables that a store is opened by is not synced.
    NoSyncOfReadTables,
    /// A database that is salvaged may be none after a power cut.
    NoSyncOfSalvagedDatabase,
    /// The mark that a salvage goes by is not synced.
    NoSyncOfSalvagedMark,
    /// A segment gets its name before its header is synced.
    NoSyncOfSegment,
    /// The name of a new segment is not synced.
    NoSyncOfSegmentName,
    /// An index that is set back takes the place of the one that is to be kept.
    NoSyncOfSetBack,
    /// The mark of a new index may be there without its stores.
    NoSyncOfStores,
    /// Readers see a group before it is synced.
    PublishBeforeSync,
    /// A request with an id is not remembered.
    ReceiptForgotten,
    /// A transaction that failed counts as under way for ever.
    RefusedStayCounted,
    /// A request of a session is executed, and its response not kept.
    ResponseForgotten,
    /// A revision that could not be written is given again while somebody may have been told of it.
    RevisionReused,
    /// Whoever goes to sleep looks too late whether the bell has rung.
    RungReadLate,
    /// A sync waits for room, which a flush makes that waits for the sync.
    SyncWaitsForRoom,
    /// Whoever waits for a revision may be told between looking and sleeping.
    ToldWithoutLock,
    /// The log is trimmed beyond what the stores hold.
    TrimTooFar,
    /// What was executed on top of a group that could not be written is left as it is.
    UndoForgetsLater,
}

#[cfg(feature = "planted")]
static PLANTED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// Plants a bug in all databases of the process, or takes it out.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<InjectedFault>) {
    let number = bug.map_or(0, |bug| bug as u32 + 1);
    PLANTED.store(number, std::sync::atomic::Ordering::SeqCst);
}

/// Whether this bug is planted.
#[cfg(feature = "planted")]
pub(crate) fn is(bug: InjectedFault) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::SeqCst) == bug as u32 + 1
}

/// Whether this bug is planted: never.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub(crate) const fn is(_: InjectedFault) -> bool {
    false
}

/// Does something, unless it is the bug that it is not done.
#[inline(always)]
pub(crate) fn unless<E>(bug: InjectedFault, act: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
    if is(bug) { Ok(()) } else { act() }
}

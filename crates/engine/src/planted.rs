//! Bugs on purpose: the tests show that they find them.
//!
//! Without the feature `planted`, which is for tests alone, there are none.

/// A bug that is in the engine because a test asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Bug {
    /// A group is answered when it is written, and synced afterwards.
    AnswerBeforeSync = 1,
    /// Whoever held the executor for a moment does not look for what was queued meanwhile.
    CombineOnce,
    /// What was gathered while the log synced is not taken for work.
    GatheredForgotten,
    /// Whoever waits for a revision is not told when it is published.
    ListenersNotTold,
    /// The log thread is not woken when there is work for it.
    LogNotWoken,
    /// Readers see a group before it is synced.
    PublishBeforeSync,
    /// A transaction that failed counts as under way for ever.
    RefusedStayCounted,
    /// Whoever goes to sleep looks too late whether the bell has rung.
    RungReadLate,
    /// A sync waits for room, which a flush makes that waits for the sync.
    SyncWaitsForRoom,
    /// Whoever waits for a revision may be told between looking and sleeping.
    ToldWithoutLock,
    /// What was executed on top of a group that could not be written is left as it is.
    UndoForgetsLater,
}

#[cfg(feature = "planted")]
static PLANTED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// Plants a bug in all databases of the process, or takes it out.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    let number = bug.map_or(0, |bug| bug as u32);
    PLANTED.store(number, std::sync::atomic::Ordering::SeqCst);
}

/// Whether this bug is planted.
#[cfg(feature = "planted")]
pub(crate) fn is(bug: Bug) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::SeqCst) == bug as u32
}

/// Whether this bug is planted: never.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub(crate) const fn is(_: Bug) -> bool {
    false
}

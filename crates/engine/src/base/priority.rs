//! Scheduling priority of background threads.
//!
//! A thread that wakes up usually preempts the thread that runs on its processor. Writers wake flushes and
//! compaction, and should continue to run. On systems that do not support this, everything still works.

/// Lowers the priority of the current thread and schedules it as batch work. It still gets its share of the
/// processor, but does not preempt other threads when it wakes up.
pub(crate) fn stay_behind() {
    #[cfg(target_os = "linux")]
    {
        use thread_priority::{
            NormalThreadSchedulePolicy, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
            set_thread_priority_and_policy, thread_native_id,
        };
        if let Ok(level) = ThreadPriorityValue::try_from(LEVEL) {
            let policy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Batch);
            let priority = ThreadPriority::Crossplatform(level);
            let _ = set_thread_priority_and_policy(thread_native_id(), priority, policy);
        }
    }
}

/// Crossplatform priority from 0 to 99. The default is 50.
#[cfg(target_os = "linux")]
const LEVEL: u8 = 30;

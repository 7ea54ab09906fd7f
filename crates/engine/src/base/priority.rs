//! How background threads share the processors with writers.
//!
//! A thread that is woken usually takes the processor from whoever runs there. Flushing and compaction are
//! woken by writers, who should go on writing. A system that cannot be asked for this works all the
//! same.

/// Runs where others leave time; it still gets its share, and being woken it pushes nobody off.
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

/// Of a hundred, fifty being the usual.
#[cfg(target_os = "linux")]
const LEVEL: u8 = 30;

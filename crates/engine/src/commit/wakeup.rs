//! Event counts for group wake-ups: one call wakes all threads that wait for the same group.
//!
//! ```text
//!   t1 t2 t3 wait at bell 7          group 7 is durable: answers are stored, bell 7 is signalled
//!   t4 t5    wait at bell 8          they sleep on
//! ```
//!
//! Waking sixty threads one by one costs sixty system calls, and as many interrupts of the other
//! processors. One call wakes them all in a row. All databases of the process share these event counts
//! (`Bell`). A thread that is woken for another group checks its state and sleeps again.

/// The number of event counts; groups use them round-robin.
const BELLS: u32 = if cfg!(feature = "model-checking") { 2 } else { 32 };

#[cfg(not(feature = "model-checking"))]
static ALL: [Bell; BELLS as usize] = [const { Bell::new() }; BELLS as usize];

#[cfg(feature = "model-checking")]
shuttle::lazy_static! {
    /// Each schedule of the model checker gets its own.
    static ref ALL: [Bell; BELLS as usize] = [const { Bell::new() }; BELLS as usize];
}

/// Returns the index of a group's event count.
pub(crate) fn of_group(number: u32) -> u32 {
    number % BELLS
}

/// Returns the event count at this index.
pub(crate) fn get(bell: u32) -> &'static Bell {
    &ALL[bell as usize]
}

/// The set of event counts to signal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WakeSet(u32);

impl WakeSet {
    pub fn add(&mut self, bell: u32) {
        self.0 |= 1 << bell;
    }

    /// Signals each event count in the set.
    pub fn ring(self) {
        let mut left = self.0;
        while left != 0 {
            ALL[left.trailing_zeros() as usize].ring();
            left &= left - 1;
        }
    }
}

#[cfg(all(target_os = "linux", not(feature = "model-checking")))]
pub(crate) use linux::Bell;
#[cfg(any(not(target_os = "linux"), feature = "model-checking"))]
pub(crate) use portable::Bell;

#[cfg(all(target_os = "linux", not(feature = "model-checking")))]
mod linux {
    use rustix::thread::futex::{Flags, wait, wake};
    use std::sync::atomic::{AtomicU32, Ordering};

    pub(crate) struct Bell(AtomicU32);

    impl Bell {
        pub const fn new() -> Bell {
            Bell(AtomicU32::new(0))
        }

        pub fn rung(&self) -> u32 {
            // The epoch. SeqCst: read before the caller's state change `OPEN -> asleep`. A notifier
            // that sees that state increments the epoch afterwards, and then `wait` returns at once.
            self.0.load(Ordering::SeqCst)
        }

        pub fn wait(&self, rung: u32) {
            // Returned because of a wake-up, a changed epoch or a signal: the caller rechecks its state
            // in any case.
            let _ = wait(&self.0, Flags::PRIVATE, rung, None);
        }

        pub fn ring(&self) {
            // SeqCst: comes after the notifier has stored the answers, and changes the epoch before the
            // wake, so that a thread between `rung` and `wait` does not sleep.
            self.0.fetch_add(1, Ordering::SeqCst);
            // Cannot fail: the address belongs to this process.
            let _ = wake(&self.0, Flags::PRIVATE, i32::MAX as u32);
        }
    }
}

#[cfg(any(not(target_os = "linux"), feature = "model-checking"))]
mod portable {
    use crate::base::sync::{Condvar, Mutex};

    pub(crate) struct Bell(Mutex<u32>, Condvar);

    impl Bell {
        pub const fn new() -> Bell {
            Bell(Mutex::new(0), Condvar::new())
        }

        pub fn rung(&self) -> u32 {
            *self.0.lock()
        }

        pub fn wait(&self, rung: u32) {
            let mut now = self.0.lock();
            if *now == rung {
                self.1.wait(&mut now);
            }
        }

        pub fn ring(&self) {
            let mut now = self.0.lock();
            *now = now.wrapping_add(1);
            self.1.notify_all();
        }
    }
}

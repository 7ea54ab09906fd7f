//! Bells: one call wakes everyone who waits for the same group.
//!
//! ```text
//!   t1 t2 t3 wait at bell 7          group 7 is durable: answers are put down, bell 7 rings once
//!   t4 t5    wait at bell 8          they sleep on
//! ```
//!
//! Waking sixty threads one by one costs the system as many calls, and as many interrupts of the other
//! processors; one call wakes them in a row. Bells are shared by all databases of the process: who
//! is woken for nothing looks and sleeps again.

/// The bells, used in turn by groups.
const BELLS: u32 = if cfg!(feature = "model-checking") { 2 } else { 32 };

#[cfg(not(feature = "model-checking"))]
static ALL: [Bell; BELLS as usize] = [const { Bell::new() }; BELLS as usize];

#[cfg(feature = "model-checking")]
shuttle::lazy_static! {
    /// Others for every schedule.
    static ref ALL: [Bell; BELLS as usize] = [const { Bell::new() }; BELLS as usize];
}

/// The bell of a group.
pub(crate) fn of_group(number: u32) -> u32 {
    number % BELLS
}

/// The bell of this number.
pub(crate) fn get(bell: u32) -> &'static Bell {
    &ALL[bell as usize]
}

/// Bells that have to ring.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WakeSet(u32);

impl WakeSet {
    pub fn add(&mut self, bell: u32) {
        self.0 |= 1 << bell;
    }

    /// Rings them all.
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
            self.0.load(Ordering::SeqCst)
        }

        pub fn wait(&self, rung: u32) {
            // It rang meanwhile, a signal came, or it was time: the caller looks in any case.
            let _ = wait(&self.0, Flags::PRIVATE, rung, None);
        }

        pub fn ring(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            // Nothing can go wrong with an address of our own.
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

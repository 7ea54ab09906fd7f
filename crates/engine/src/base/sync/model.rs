//! The subset of `parking_lot`'s locks that the engine uses, built on shuttle for model checking.
//!
//! shuttle has no time. A wait of at least [`LONG`] counts as endless, so that a lost wake-up shows as a
//! deadlock. A shorter wait counts as polling and may end at any moment.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(crate) use shuttle::sync::atomic;
pub(crate) use shuttle::{thread, thread_local};

/// Timeouts from this duration on never expire.
const LONG: Duration = Duration::from_secs(60);

/// Lets the scheduler switch threads.
fn switch() {
    thread::sleep(Duration::ZERO);
}

#[derive(Debug, Default)]
pub struct Mutex<T> {
    inner: shuttle::sync::Mutex<T>,
    /// Mirrors the lock state. No other thread runs between the lock operation and its store, because only
    /// shuttle operations switch threads.
    held: AtomicBool,
}

pub struct MutexGuard<'m, T> {
    /// `None` only during a wait.
    inner: Option<shuttle::sync::MutexGuard<'m, T>>,
    mutex: &'m Mutex<T>,
}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { inner: shuttle::sync::Mutex::new(value), held: AtomicBool::new(false) }
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.guard(self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.inner.try_lock().ok().map(|inner| self.guard(inner))
    }

    pub fn is_locked(&self) -> bool {
        switch();
        // Any ordering works for this flag: shuttle runs all threads on one real thread.
        self.held.load(Ordering::SeqCst)
    }

    fn guard<'m>(&'m self, inner: shuttle::sync::MutexGuard<'m, T>) -> MutexGuard<'m, T> {
        self.held.store(true, Ordering::SeqCst);
        MutexGuard { inner: Some(inner), mutex: self }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("only a wait lets go of a lock")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("only a wait lets go of a lock")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        drop(self.inner.take());
        self.mutex.held.store(false, Ordering::SeqCst);
    }
}

#[derive(Debug, Default)]
pub struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub const fn new() -> Condvar {
        Condvar(shuttle::sync::Condvar::new())
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let waited = guard.inner.take().map(|inner| self.0.wait(inner));
        guard.inner = waited.map(|waited| waited.unwrap_or_else(PoisonError::into_inner));
        guard.mutex.held.store(true, Ordering::SeqCst);
    }

    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) {
        if timeout >= LONG {
            return self.wait(guard);
        }
        drop(guard.inner.take());
        guard.mutex.held.store(false, Ordering::SeqCst);
        thread::yield_now();
        guard.inner = guard.mutex.lock().inner.take();
        guard.mutex.held.store(true, Ordering::SeqCst);
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[derive(Debug, Default)]
pub struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(shuttle::sync::RwLock::new(value))
    }

    pub fn read(&self) -> shuttle::sync::RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write(&self) -> shuttle::sync::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

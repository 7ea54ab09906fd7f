//! Object store worker: one thread with a runtime that executes all object store operations.
//!
//! ```text
//!   future --queue of 64--> thread with a runtime, 64 at a time --> its result
//! ```
//!
//! The caller may have no runtime, or one that must not be blocked. Also, a store keeps state between
//! operations, above all connections, on the runtime it started on. So a single runtime exists, and it
//! stays.

use parking_lot::Mutex;
use std::io::{Error, Result};
use std::pin::Pin;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Maximum number of running operations, and of queued ones before callers wait.
const OPERATION_LIMIT: usize = 64;

type StoreOperation = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The worker; see the module. The thread starts with the first operation and ends when this is dropped.
#[derive(Default)]
pub(crate) struct ObjectStoreThread(Mutex<Option<mpsc::Sender<StoreOperation>>>);

impl ObjectStoreThread {
    /// Executes an operation on the worker thread and returns its result.
    pub async fn run<T: Send + 'static>(
        &self,
        operation: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = oneshot::channel();
        let task = async move {
            // The receiver is gone if the caller gave up waiting.
            let _ = sender.send(operation.await.map_err(Error::other));
        };
        let queue = self.queue()?;
        // If the thread has ended, the closed channel below reports it.
        let _ = queue.send(Box::pin(task)).await;
        receiver.await.unwrap_or_else(|_| Err(Error::other("the object store panicked")))
    }

    fn queue(&self) -> Result<mpsc::Sender<StoreOperation>> {
        let mut queue = self.0.lock();
        if let Some(queue) = &*queue {
            return Ok(queue.clone());
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (sender, receiver) = mpsc::channel(OPERATION_LIMIT);
        std::thread::Builder::new()
            .name("mainstay-job-object".to_owned())
            .spawn(move || serve(&runtime, receiver))?;
        Ok(queue.insert(sender).clone())
    }
}

/// Runs until all senders are gone.
fn serve(runtime: &Runtime, mut queue: mpsc::Receiver<StoreOperation>) {
    let permits = Arc::new(Semaphore::new(OPERATION_LIMIT));
    runtime.block_on(async move {
        while let Ok(permit) = permits.clone().acquire_owned().await {
            let Some(operation) = queue.recv().await else { return };
            // A panicking operation ends alone; the runtime keeps running.
            tokio::spawn(async move {
                operation.await;
                drop(permit);
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay::remote::wait;
    // SeqCst in these tests: the counters and flags synchronize with other threads, and speed does not matter.
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn everything_is_done_on_one_thread_that_outlives_panics() {
        let store_thread = ObjectStoreThread::default();
        let thread = || wait(store_thread.run(async { Ok(std::thread::current().id()) })).unwrap();
        let first = thread();
        let panicked: Result<()> = wait(store_thread.run(async { panic!("a store is broken") }));
        assert!(panicked.is_err());
        assert_eq!(thread(), first);
        assert_ne!(first, std::thread::current().id());
    }

    #[test]
    fn only_so_many_are_under_way_and_all_are_done() {
        let store_thread = ObjectStoreThread::default();
        let under_way = AtomicUsize::new(0);
        let under_way = Arc::new(under_way);
        let most = Arc::new(AtomicUsize::new(0));
        let one = || {
            let under_way = under_way.clone();
            let most = most.clone();
            store_thread.run(async move {
                most.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                under_way.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            })
        };
        std::thread::scope(|scope| {
            for _ in 0..(2 * OPERATION_LIMIT) {
                scope.spawn(|| (0..10).for_each(|_| wait(one()).unwrap()));
            }
        });
        assert!(most.load(Ordering::SeqCst) <= OPERATION_LIMIT);
    }
}

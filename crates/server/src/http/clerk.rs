//! The clerk: one thread works off all orders to jobs and locks.
//!
//! ```text
//!   request --Order--> the clerk's thread: polls whatever can go on --> the request
//! ```
//!
//! An order is submitted to the database where it is polled, and that can wait for room in its queue: no thread
//! that serves requests does so. An order whose request is gone is dropped and waits for nothing any more.

use super::Http;
use super::access::Asking;
use super::refusal::{Answered, Refusal};
use crate::jobs::{Order, Outcome};
use mainstay::MAIN;
use std::future::Future;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task;

/// The thread; it ends with this.
pub(crate) struct Clerk {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// One more of these than there are orders under way.
    under_way: Arc<()>,
}

/// Work that ends when nobody waits for it, counted until then.
struct Wanted<T> {
    work: task::JoinHandle<T>,
    _counted: Arc<()>,
}

impl<T> Drop for Wanted<T> {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl Clerk {
    /// Starts the thread.
    pub fn start() -> std::io::Result<Clerk> {
        let runtime = Builder::new_current_thread().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        // Whoever would stop it is gone: that is as good.
        let run = move || drop(runtime.block_on(stopped));
        let thread = std::thread::Builder::new().name("mainstay-http-jobs".into()).spawn(run)?;
        let (stop, thread, under_way) = (Some(stop), Some(thread), Arc::default());
        Ok(Clerk { handle, stop, thread, under_way })
    }

    /// How many orders are under way, waiting ones included.
    pub fn under_way(&self) -> usize {
        Arc::strong_count(&self.under_way) - 1
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Answered<T> {
        let work = self.handle.spawn(work);
        let mut wanted = Wanted { work, _counted: self.under_way.clone() };
        (&mut wanted.work).await.map_err(|_| Refusal::lost())
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been told on its own thread.
            let _ = thread.join();
        }
    }
}

impl Http {
    /// Does what is wanted with jobs and locks, if whoever asks may.
    pub(crate) async fn order(
        &self,
        asking: &Asking,
        branch: Option<String>,
        order: Order,
    ) -> Answered<Outcome> {
        order.allow(&asking.user, self.jobs().keys())?;
        let (desk, branch) = (self.jobs().clone(), branch.unwrap_or_else(|| MAIN.to_owned()));
        let work = async move { desk.run(&branch, order).await };
        Ok(self.clerk().run(work).await??)
    }
}

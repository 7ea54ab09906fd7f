//! A single-threaded runtime that executes all requests to jobs and locks.
//!
//! ```text
//!   request --Order--> this thread: polls every order that can progress --> the request
//! ```
//!
//! An order submits to the database while it is polled, and submitting can block on a full queue. So orders
//! never run on threads that serve requests. An order whose request was dropped is aborted.

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

/// Owns the thread, which stops when this is dropped.
pub(crate) struct Clerk {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Has one more reference than the number of orders under way.
    under_way: Arc<()>,
}

/// A task that is aborted when its request is dropped. It counts as under way until then.
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
    pub fn start() -> std::io::Result<Clerk> {
        let runtime = Builder::new_current_thread().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        // An error means the sender was dropped, which also means stop.
        let thread = std::thread::Builder::new()
            .name("mainstay-http-jobs".into())
            .spawn(move || drop(runtime.block_on(stopped)))?;
        let stop = Some(stop);
        let thread = Some(thread);
        let under_way = Arc::default();
        Ok(Clerk { handle, stop, thread, under_way })
    }

    /// The number of orders under way, including blocked ones.
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
            // The panic was already reported on its own thread.
            let _ = thread.join();
        }
    }
}

impl Http {
    /// Checks the caller's rights, then executes an order on jobs or locks.
    pub(crate) async fn order(
        &self,
        asking: &Asking,
        branch: Option<String>,
        order: Order,
    ) -> Answered<Outcome> {
        order.allow(&asking.user, self.jobs().keys())?;
        let desk = self.jobs().clone();
        let branch = branch.unwrap_or_else(|| MAIN.to_owned());
        let work = async move { desk.run(&branch, order).await };
        Ok(self.clerk().run(work).await??)
    }
}

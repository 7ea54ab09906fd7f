//! A worker thread pool for work that would block an event loop, with fair queueing between users.
//!
//! ```text
//!   take --> queue, users take turns --> thread: the next user that uses less than its share of the threads
//! ```

use super::connection_state::WorkerJob;
use crate::fair_queue::FairQueue;
use crate::security::User;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Work, and the function that receives its reply.
struct WorkerTask {
    job: WorkerJob,
    callback: ReplyCallback,
}

type ReplyCallback = Box<dyn FnOnce(super::Reply) + Send>;

/// The user that a task belongs to, with the most tasks of this user that may wait and that may run.
#[derive(Clone, Debug, PartialEq)]
struct WorkOwner {
    user: String,
    waiting_share: usize,
    running_share: usize,
}

#[derive(Default)]
struct PoolState {
    waiting: FairQueue<WorkOwner, WorkerTask>,
    /// Number of running tasks of each user, without users that have none.
    running: BTreeMap<String, usize>,
    /// True once no further work comes.
    stopped: bool,
}

struct WorkerPool {
    threads: usize,
    waiting_limit: usize,
    state: Mutex<PoolState>,
    changed: Condvar,
}

/// A handle to the pool. The threads end when the last handle is dropped and all work is done.
#[derive(Clone)]
pub struct Workers {
    handle: Arc<PoolHandle>,
}

struct PoolHandle(Arc<WorkerPool>);

impl Drop for PoolHandle {
    fn drop(&mut self) {
        self.0.state.lock().stopped = true;
        self.0.changed.notify_all();
    }
}

impl Workers {
    /// Starts `count` threads, for which at most `waiting_limit` tasks may wait.
    pub fn start(count: usize, waiting_limit: usize) -> std::io::Result<Workers> {
        let threads = count.max(1);
        let state = Mutex::default();
        let changed = Condvar::new();
        let pool = Arc::new(WorkerPool { threads, waiting_limit, state, changed });
        // If a thread cannot be started, dropping this handle ends the earlier ones.
        let handle = Arc::new(PoolHandle(pool.clone()));
        for _ in 0..threads {
            let pool = pool.clone();
            let thread = std::thread::Builder::new().name("mainstay-worker".to_owned());
            thread.spawn(move || while pool.run_next() {})?;
        }
        Ok(Workers { handle })
    }

    /// Queues work. Returns `done` if too much work is waiting already, in total or of this user.
    pub fn submit(
        &self,
        user: Option<&User>,
        job: WorkerJob,
        callback: impl FnOnce(super::Reply) + Send + 'static,
    ) -> Result<(), ReplyCallback> {
        let pool = &self.handle.0;
        let owner = pool.owner(user);
        let task = WorkerTask { job, callback: Box::new(callback) };
        let mut state = pool.state.lock();
        let is_full = state.waiting.len() >= pool.waiting_limit
            || state.waiting.len_of(&owner) >= owner.waiting_share;
        if is_full {
            return Err(task.callback);
        }
        state.waiting.push(owner, task);
        pool.changed.notify_one();
        Ok(())
    }
}

impl WorkerPool {
    fn owner(&self, user: Option<&User>) -> WorkOwner {
        let share = |limit| user.map_or(limit, |user| user.share_of(limit));
        WorkOwner {
            user: user.map_or_else(String::new, |user| user.name().to_owned()),
            waiting_share: share(self.waiting_limit),
            running_share: share(self.threads),
        }
    }

    /// Executes the next task. Returns false when no more tasks will come.
    fn run_next(&self) -> bool {
        let Some((owner, WorkerTask { job, callback })) = self.next() else { return false };
        let reply = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
        self.finish(&owner);
        callback(reply.unwrap_or_else(|_| {
            super::Reply::error("ERR the command failed in a way that is a fault of the server")
        }));
        true
    }

    fn next(&self) -> Option<(WorkOwner, WorkerTask)> {
        let mut state = self.state.lock();
        loop {
            let PoolState { waiting, running, stopped } = &mut *state;
            let runs = |owner: &WorkOwner| running.get(&owner.user).copied().unwrap_or(0);
            if let Some(next) = waiting.pop_if(|owner| runs(owner) < owner.running_share) {
                *running.entry(next.0.user.clone()).or_default() += 1;
                return Some(next);
            }
            if *stopped && waiting.is_empty() {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    fn finish(&self, owner: &WorkOwner) {
        let mut state = self.state.lock();
        if let Some(count) = state.running.get_mut(&owner.user) {
            *count -= 1;
            if *count == 0 {
                state.running.remove(&owner.user);
            }
        }
        // A task of this user may have waited for its share, and threads may wait for the end of the queue.
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Reply;
    use crate::security::Security;
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn users() -> [Arc<User>; 2] {
        let names = ["greedy", "honest"];
        let security = Security::of(&names);
        names.map(|name| security.user(name))
    }

    /// Submits a task that runs until the returned sender is dropped.
    fn submit_blocking(workers: &Workers, user: &User) -> Option<Sender<()>> {
        let (sender, receiver) = channel::<()>();
        let job = Box::new(move || {
            let _ = receiver.recv();
            Reply::Status("OK")
        });
        workers.submit(Some(user), job, |_| {}).ok().map(|()| sender)
    }

    fn completes(workers: &Workers, user: &User) -> bool {
        let (sender, receiver) = channel();
        let callback = move |_: Reply| {
            let _ = sender.send(());
        };
        let submitted = workers.submit(Some(user), Box::new(|| Reply::Status("OK")), callback);
        submitted.is_ok() && receiver.recv_timeout(PATIENCE).is_ok()
    }

    #[test]
    fn a_user_with_much_long_work_leaves_some_threads_and_some_places_to_others() {
        let workers = Workers::start(2, 8).unwrap();
        let [greedy, honest] = users();
        let work: Vec<_> =
            std::iter::from_fn(|| submit_blocking(&workers, &greedy)).take(20).collect();
        assert!((4..=5).contains(&work.len()), "one runs and four wait: {}", work.len());
        assert!(completes(&workers, &honest), "one thread is left to it");
        drop(work);
        let comes_again = (0..6_000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            completes(&workers, &greedy)
        });
        assert!(comes_again, "once its places are free");
    }

    #[test]
    fn work_that_panics_gives_its_thread_back() {
        let workers = Workers::start(1, 8).unwrap();
        let [greedy, honest] = users();
        workers.submit(Some(&greedy), Box::new(|| panic!("on purpose")), |_| {}).ok().unwrap();
        assert!(completes(&workers, &greedy) && completes(&workers, &honest));
    }
}

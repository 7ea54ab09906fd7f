//! Workers: threads for work that would hold an event loop up.
//!
//! ```text
//!   take --> queue, whose users take turns --> thread: the next user with less than its share of the threads
//!   long transactions that write have a queue of their own, from which one is taken at a time
//! ```

use super::session::Job;
use crate::fair_queue::FairQueue;
use crate::security::{LongWrites, User};
use mainstay::Database;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Work, and what is done with its reply.
struct Task {
    job: Job,
    done: Done,
}

type Done = Box<dyn FnOnce(super::Reply) + Send>;

/// Whose work it is: how many tasks of this user may wait, and how many may run.
#[derive(Clone, Debug, PartialEq)]
struct Owner {
    user: String,
    waiting_share: usize,
    running_share: usize,
}

#[derive(Default)]
struct State {
    waiting: FairQueue<Owner, Task>,
    long_writes: FairQueue<Owner, Task>,
    long_write_runs: bool,
    /// How many tasks of each user run; of nobody who has none.
    running: BTreeMap<String, usize>,
    /// No further work comes.
    ended: bool,
}

struct Queue {
    db: Database,
    long_writes: Arc<LongWrites>,
    threads: usize,
    waiting_limit: usize,
    state: Mutex<State>,
    changed: Condvar,
}

/// Threads that do long work. They end when the last handle is dropped and all work is done.
#[derive(Clone)]
pub struct Workers {
    handle: Arc<Handle>,
}

struct Handle(Arc<Queue>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.state.lock().ended = true;
        self.0.changed.notify_all();
    }
}

impl Workers {
    /// So many threads, for which so much work may wait.
    pub fn start(
        count: usize,
        waiting_limit: usize,
        db: Database,
        long_writes: Arc<LongWrites>,
    ) -> std::io::Result<Workers> {
        let threads = count.max(1);
        let (state, changed) = (Mutex::default(), Condvar::new());
        let queue = Arc::new(Queue { db, long_writes, threads, waiting_limit, state, changed });
        // If a thread cannot be had, those before it end with this.
        let handle = Arc::new(Handle(queue.clone()));
        for _ in 0..threads {
            let queue = queue.clone();
            let thread = std::thread::Builder::new().name("mainstay-worker".to_owned());
            thread.spawn(move || while queue.work() {})?;
        }
        Ok(Workers { handle })
    }

    /// Has work done; gives `done` back if there is too much of it already, of all users or of this one.
    pub fn take(
        &self,
        user: Option<&User>,
        job: Job,
        is_long_write: bool,
        done: impl FnOnce(super::Reply) + Send + 'static,
    ) -> Result<(), Done> {
        let queue = &self.handle.0;
        let owner = queue.owner(user);
        let task = Task { job, done: Box::new(done) };
        let mut state = queue.state.lock();
        let State { waiting, long_writes, .. } = &mut *state;
        let is_full = waiting.len() + long_writes.len() >= queue.waiting_limit
            || waiting.len_of(&owner) + long_writes.len_of(&owner) >= owner.waiting_share;
        if is_full {
            return Err(task.done);
        }
        if is_long_write { long_writes } else { waiting }.push(owner, task);
        queue.changed.notify_one();
        Ok(())
    }
}

impl Queue {
    fn owner(&self, user: Option<&User>) -> Owner {
        let share = |limit| user.map_or(limit, |user| user.share_of(limit));
        Owner {
            user: user.map_or_else(String::new, |user| user.name().to_owned()),
            waiting_share: share(self.waiting_limit),
            running_share: share(self.threads),
        }
    }

    /// Does the next task; false when there will be none.
    fn work(&self) -> bool {
        let Some(((owner, Task { job, done }), is_long_write)) = self.next() else { return false };
        let run = || std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
        let reply = match is_long_write {
            true => self.long_writes.measure(&self.db, run),
            false => run(),
        };
        self.is_done(&owner, is_long_write);
        done(reply.unwrap_or_else(|_| {
            super::Reply::error("ERR the command failed in a way that is a fault of the server")
        }));
        true
    }

    /// The next task, and whether it is a long transaction that writes.
    fn next(&self) -> Option<((Owner, Task), bool)> {
        let mut state = self.state.lock();
        loop {
            let State { waiting, long_writes, long_write_runs, running, ended } = &mut *state;
            let runs = |owner: &Owner| running.get(&owner.user).copied().unwrap_or(0);
            let may = |owner: &Owner| runs(owner) < owner.running_share;
            let rest = match long_writes.is_empty() || *long_write_runs || *ended {
                true => None,
                false => self.long_writes.wait(&self.db),
            };
            let long_write = match rest.is_some() || *long_write_runs {
                true => None,
                false => long_writes.pop_if(may),
            };
            *long_write_runs |= long_write.is_some();
            let is_long_write = long_write.is_some();
            if let Some(next) = long_write.or_else(|| waiting.pop_if(may)) {
                *running.entry(next.0.user.clone()).or_default() += 1;
                return Some((next, is_long_write));
            }
            if *ended && waiting.is_empty() && long_writes.is_empty() {
                return None;
            }
            match rest {
                Some(rest) => drop(self.changed.wait_for(&mut state, rest)),
                None => self.changed.wait(&mut state),
            }
        }
    }

    fn is_done(&self, owner: &Owner, is_long_write: bool) {
        let mut state = self.state.lock();
        state.long_write_runs &= !is_long_write;
        if let Some(count) = state.running.get_mut(&owner.user) {
            *count -= 1;
            if *count == 0 {
                state.running.remove(&owner.user);
            }
        }
        // A task of this user may have waited for its share, and threads for the end.
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

    fn start(threads: usize) -> Workers {
        Workers::start(threads, 8, Database::memory().unwrap(), Arc::default()).unwrap()
    }

    /// Work that waits to be let go.
    fn held(workers: &Workers, user: &User) -> Option<Sender<()>> {
        let (sender, receiver) = channel::<()>();
        let job = Box::new(move || {
            let _ = receiver.recv();
            Reply::Status("OK")
        });
        workers.take(Some(user), job, false, |_| {}).ok().map(|()| sender)
    }

    fn is_done(workers: &Workers, user: &User) -> bool {
        let (sender, receiver) = channel();
        let done = move |_: Reply| {
            let _ = sender.send(());
        };
        let taken = workers.take(Some(user), Box::new(|| Reply::Status("OK")), false, done);
        taken.is_ok() && receiver.recv_timeout(PATIENCE).is_ok()
    }

    #[test]
    fn a_user_with_much_long_work_leaves_some_threads_and_some_places_to_others() {
        let workers = start(2);
        let [greedy, honest] = users();
        let work: Vec<_> = std::iter::from_fn(|| held(&workers, &greedy)).take(20).collect();
        assert!((4..=5).contains(&work.len()), "one runs and four wait: {}", work.len());
        assert!(is_done(&workers, &honest), "one thread is left to it");
        drop(work);
        let comes_again = (0..6_000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            is_done(&workers, &greedy)
        });
        assert!(comes_again, "once its places are free");
    }

    #[test]
    fn work_that_panics_gives_its_thread_back() {
        let workers = start(1);
        let [greedy, honest] = users();
        let panics = Box::new(|| panic!("on purpose"));
        workers.take(Some(&greedy), panics, true, |_| {}).ok().unwrap();
        assert!(is_done(&workers, &greedy) && is_done(&workers, &honest));
    }

    #[test]
    fn long_writes_run_one_at_a_time_and_rest_while_others_go_on() {
        let db = Database::memory().unwrap();
        let workers = Workers::start(2, 8, db.clone(), Arc::default()).unwrap();
        let [greedy, honest] = users();
        let set = |db: &Database| db.cells().set("a", 1).map(drop).unwrap();
        let (sender, ended) = channel();
        for _ in 0..2 {
            let (db, sender) = (db.clone(), sender.clone());
            let job = Box::new(move || {
                // The long one and one of somebody else.
                set(&db);
                set(&db);
                std::thread::sleep(Duration::from_millis(200));
                Reply::Status("OK")
            });
            let done = move |_: Reply| {
                let _ = sender.send(());
            };
            workers.take(Some(&greedy), job, true, done).ok().unwrap();
        }
        ended.recv_timeout(PATIENCE).unwrap();
        assert!(is_done(&workers, &honest) && is_done(&workers, &greedy), "other work goes on");
        assert!(ended.try_recv().is_err(), "the second one rests");
        ended.recv_timeout(PATIENCE).unwrap();
    }
}

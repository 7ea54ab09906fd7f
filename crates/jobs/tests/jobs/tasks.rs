//! A minimal executor on one thread that polls a task only after its waker was called.

use std::pin::Pin;
use std::sync::Arc;
// SeqCst in these tests: the counters and flags synchronize with other threads, and speed does not matter.
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

pub struct Tasks<'f, T> {
    all: Vec<Option<Task<'f, T>>>,
}

struct Task<'f, T> {
    future: Pin<Box<dyn Future<Output = T> + Send + 'f>>,
    call: Arc<Call>,
}

struct Call {
    is_woken: AtomicBool,
    thread: Thread,
}

impl Wake for Call {
    fn wake(self: Arc<Call>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

impl<'f, T> Tasks<'f, T> {
    pub fn new() -> Tasks<'f, T> {
        Tasks { all: Vec::new() }
    }

    pub fn spawn(&mut self, future: impl Future<Output = T> + Send + 'f) {
        let call = Call { is_woken: AtomicBool::new(true), thread: std::thread::current() };
        self.all.push(Some(Task { future: Box::pin(future), call: Arc::new(call) }));
    }

    /// Polls woken tasks until enough have ended. Returns their results.
    pub fn run_until(&mut self, mut is_enough: impl FnMut(usize) -> bool) -> Vec<T> {
        let mut ended = Vec::new();
        while !is_enough(ended.len()) {
            let polled = self.poll(&mut ended);
            if !polled && !is_enough(ended.len()) {
                std::thread::park();
            }
        }
        ended
    }

    /// Polls woken tasks once. None may end.
    pub fn run_once(&mut self) {
        let mut ended = Vec::new();
        self.poll(&mut ended);
        assert!(ended.is_empty(), "it was to wait");
    }

    fn poll(&mut self, ended: &mut Vec<T>) -> bool {
        let mut polled = false;
        for place in &mut self.all {
            let Some(task) = place else { continue };
            if !task.call.is_woken.swap(false, Ordering::SeqCst) {
                continue;
            }
            polled = true;
            let waker = Waker::from(task.call.clone());
            if let Poll::Ready(end) = task.future.as_mut().poll(&mut Context::from_waker(&waker)) {
                ended.push(end);
                *place = None;
            }
        }
        polled
    }

    /// Waits until a task was woken, without polling it.
    pub fn wait_for_call(&self, place: usize) {
        let is_woken = || {
            let task = self.all[place].as_ref().expect("it has not ended");
            task.call.is_woken.load(Ordering::SeqCst)
        };
        while !is_woken() {
            std::thread::park();
        }
    }

    pub fn drop_task(&mut self, place: usize) {
        self.all[place] = None;
    }
}

//! The machine of a client: what runs on it ends when it crashes.

use mainstay_sessions::simulation::Simulation;
use mainstay_sessions::{Runtime, Task};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

/// A machine.
pub struct Machine {
    simulation: Arc<Simulation>,
    runs: Arc<AtomicBool>,
}

impl Machine {
    /// One that runs.
    pub fn new(simulation: &Arc<Simulation>) -> Arc<Machine> {
        let runs = Arc::new(AtomicBool::new(true));
        Arc::new(Machine { simulation: simulation.clone(), runs })
    }

    /// Nothing on it goes on.
    pub fn crash(&self) {
        self.runs.store(false, Ordering::SeqCst);
    }
}

impl Runtime for Machine {
    fn now_us(&self) -> u64 {
        self.simulation.now_us()
    }

    fn sleep(&self, time: Duration) -> Task {
        self.simulation.nap(time)
    }

    fn spawn(&self, mut task: Task) {
        let runs = self.runs.clone();
        self.simulation.beside(std::future::poll_fn(move |context| {
            match runs.load(Ordering::SeqCst) {
                true => task.as_mut().poll(context),
                false => Poll::Ready(()),
            }
        }));
    }

    fn unique(&self) -> u64 {
        self.simulation.unique()
    }
}

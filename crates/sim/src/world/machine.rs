//! The machine of a client: a crash ends all of its tasks.

use mainstay_sessions::simulation::Simulation;
use mainstay_sessions::{Runtime, Task};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

/// A simulated machine.
pub struct Machine {
    simulation: Arc<Simulation>,
    runs: Arc<AtomicBool>,
}

impl Machine {
    /// Creates a running machine.
    pub fn new(simulation: &Arc<Simulation>) -> Arc<Machine> {
        let runs = Arc::new(AtomicBool::new(true));
        Arc::new(Machine { simulation: simulation.clone(), runs })
    }

    /// Ends all tasks on it.
    pub fn crash(&self) {
        // SeqCst for simplicity: the simulation has one thread.
        self.runs.store(false, Ordering::SeqCst);
    }
}

impl Runtime for Machine {
    fn now_us(&self) -> u64 {
        self.simulation.now_us()
    }

    fn sleep(&self, time: Duration) -> Task {
        self.simulation.sleep(time)
    }

    fn spawn(&self, mut task: Task) {
        let runs = self.runs.clone();
        self.simulation.spawn(std::future::poll_fn(move |context| {
            // SeqCst as in `crash`.
            if runs.load(Ordering::SeqCst) { task.as_mut().poll(context) } else { Poll::Ready(()) }
        }));
    }

    fn unique(&self) -> u64 {
        self.simulation.unique()
    }
}

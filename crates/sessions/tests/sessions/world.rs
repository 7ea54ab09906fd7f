//! A simulation with a database, and clients with separate transports.

use super::*;
use mainstay::ErrorKind;
use mainstay_sessions::simulation::{InlineTransport, SimulatedRuntime, Simulation};
use mainstay_sessions::{AsyncSession, Client, Faults, Faulty, Runtime};

/// A simulation with a database, and clients with separate transports.
pub struct World {
    pub simulation: Arc<Simulation>,
    pub db: Database,
}

pub fn world() -> World {
    let simulation = Simulation::new();
    World { db: simulation.database().unwrap(), simulation }
}

pub fn never() -> Faults {
    Faults::default()
}

/// Every request is executed, but no answer arrives.
pub fn deaf() -> Faults {
    Faults { lose_answer: 1.0, ..never() }
}

/// No request arrives.
pub fn cut() -> Faults {
    Faults { lose_request: 1.0, ..never() }
}

pub fn settings() -> Settings {
    Settings { deadline: Some(secs(5)), seed: Some(1), ..Settings::default() }
}

impl World {
    pub fn transport(&self, faults: Faults) -> Arc<Faulty> {
        Faulty::new(Arc::new(InlineTransport::new(&self.db)), faults)
    }

    pub fn client(&self, transport: &Arc<Faulty>, settings: Settings) -> Client {
        let runtime = Arc::new(SimulatedRuntime(self.simulation.clone()));
        Client::on(transport.clone(), settings, runtime).unwrap()
    }

    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.simulation.run(future)
    }

    /// A session over the given faulty transport.
    pub fn session(&self, transport: &Arc<Faulty>) -> AsyncSession {
        self.run(self.client(transport, settings()).open_async(named("s"))).unwrap()
    }

    pub fn sleep(&self, time: Duration) {
        self.run(SimulatedRuntime(self.simulation.clone()).sleep(time));
    }

    pub fn value(&self, cell: &str) -> i64 {
        value(&self.db, cell)
    }
}

pub fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

/// Settings without keep-alives.
pub fn silent() -> Settings {
    Settings { keeps_alive: false, ..settings() }
}

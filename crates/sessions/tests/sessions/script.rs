//! Random client programs in a simulation, and the invariants that must hold afterwards.
//!
//! Operation `u` adds `u` to its own cell. So the cell tells how often it was executed, and the sum in an
//! answer tells whose answer it is.

use super::*;
use mainstay::{Error, ErrorKind, SessionAnswer, SessionCommand};
use mainstay_sessions::simulation::{Inline, Simulation, Surroundings};
use mainstay_sessions::{AsyncSession, Client, Faults, Faulty, Letter, Planted};
use parking_lot::Mutex;

/// A run, which is determined by these parameters.
#[derive(Clone, Debug)]
pub struct Script {
    pub faults: Faults,
    pub clients: usize,
    /// Number of concurrent tasks per client.
    pub tasks: usize,
    pub requests: usize,
    pub window: usize,
    /// Deadline of a request, in milliseconds.
    pub deadline_ms: u64,
    /// Lease of a session, in milliseconds.
    pub lease_ms: u64,
    /// One of this many requests comes after its session was silent for longer than its lease; 0: none.
    pub silences: u64,
    /// The letter handler fails one of this many times; 0: never.
    pub failures: u64,
    pub planted: Option<Planted>,
}

/// The reported result of an operation.
#[derive(Debug)]
pub struct Told {
    pub id: i64,
    pub told: std::result::Result<i64, Error>,
}

/// Result of a run.
pub struct Outcome {
    pub told: Vec<Told>,
    pub letters: Vec<Vec<Letter>>,
    /// Violated invariants.
    pub wrong: Vec<String>,
    pub retries: u64,
}

struct World {
    script: Script,
    simulation: Arc<Simulation>,
    db: Database,
    way: Arc<Faulty>,
    told: Mutex<Vec<Told>>,
    letters: Vec<Mutex<Vec<Letter>>>,
    wrong: Mutex<Vec<String>>,
}

fn session_name(client: usize) -> String {
    format!("client-{client}")
}

fn cell(id: i64) -> String {
    format!("op/{id}")
}

impl Script {
    pub fn run(&self) -> Outcome {
        let simulation = Simulation::new();
        let db = simulation.database().unwrap();
        let world = Arc::new(World {
            script: self.clone(),
            simulation: simulation.clone(),
            way: Faulty::new(Arc::new(Inline::new(&db)), self.faults),
            db,
            told: Mutex::default(),
            letters: (0..self.clients).map(|_| Mutex::default()).collect(),
            wrong: Mutex::default(),
        });
        let retries = simulation.run(world.clone().play());
        simulation.end();
        world.check();
        let letters = world.letters.iter().map(|letters| letters.lock().clone()).collect();
        let told = std::mem::take(&mut *world.told.lock());
        let wrong = std::mem::take(&mut *world.wrong.lock());
        Outcome { told, letters, wrong, retries }
    }
}

impl World {
    fn settings(&self) -> Settings {
        let Script { window, deadline_ms, planted, .. } = self.script;
        Settings {
            window,
            deadline: Some(ms(deadline_ms)),
            attempt: ms(200),
            first_pause: ms(1),
            longest_pause: ms(50),
            // Keep-alives would break the silences.
            keeps_alive: self.script.silences == 0,
            seed: Some(self.script.faults.seed),
            planted,
        }
    }

    async fn play(self: Arc<World>) -> u64 {
        let runtime = Arc::new(Surroundings(self.simulation.clone()));
        let client = Client::on(self.way.clone(), self.settings(), runtime).unwrap();
        let mut sessions = Vec::new();
        for number in 0..self.script.clients {
            sessions.push(self.open(&client, number).await);
        }
        let (tell, told) = std::sync::mpsc::channel();
        for (number, session) in sessions.iter().enumerate() {
            self.listen(session, number);
            for task in 0..self.script.tasks {
                let world = self.clone();
                let session = session.clone();
                let tell = tell.clone();
                self.simulation.beside(async move {
                    world.ask_all(&session, number, task).await;
                    tell.send(()).unwrap();
                });
            }
        }
        drop(tell);
        let mut left = self.script.clients * self.script.tasks;
        while left > 0 {
            self.sleep(ms(10)).await;
            left -= told.try_iter().count();
        }
        self.end(&sessions).await;
        sessions.iter().map(|session| session.figures().retries).sum()
    }

    async fn sleep(&self, time: Duration) {
        use mainstay_sessions::Runtime;
        Surroundings(self.simulation.clone()).sleep(time).await;
    }

    fn options(&self, number: usize) -> SessionOptions {
        named(&session_name(number)).lease(ms(self.script.lease_ms))
    }

    /// The deadline may be too short for an opening over a faulty transport.
    async fn open(&self, client: &Client, number: usize) -> AsyncSession {
        loop {
            if let Ok(session) = client.open_async(self.options(number)).await {
                return session;
            }
        }
    }

    fn listen(self: &Arc<World>, session: &AsyncSession, number: usize) {
        let world = self.clone();
        let session = session.clone();
        let mut calls = 0;
        let handle = move |letter: Letter| {
            calls += 1;
            std::future::ready(world.handle(number, letter, calls))
        };
        self.simulation.beside(async move { session.listen(handle).await.unwrap() });
    }

    fn handle(&self, number: usize, letter: Letter, calls: u64) -> Result<()> {
        self.check_pending(number, &letter);
        let failures = self.script.failures;
        match calls {
            _ if failures > 0 && calls.is_multiple_of(failures * 2) => panic!("on purpose"),
            _ if failures > 0 && calls.is_multiple_of(failures) => {
                Err(Error::new(mainstay::Code::Io, "on purpose"))
            }
            _ => {
                self.letters[number].lock().push(letter);
                Ok(())
            }
        }
    }

    /// Checks that a letter is not acknowledged while it is being handled.
    fn check_pending(&self, number: usize, letter: &Letter) {
        if self.script.silences > 0 {
            return;
        }
        let session = name(&session_name(number));
        let after = letter.number - 1;
        let pending = SessionCommand::Pending { session, after, limit: 1, epoch: 0 };
        let answer = self.db.execute(Transaction::new().step(pending)).unwrap().answers.remove(0);
        let is_pending = match answer {
            Answer::Session(answer) => match *answer {
                SessionAnswer::Pending { requests, .. } => {
                    requests.iter().any(|(number, _)| *number == letter.number)
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        if !is_pending {
            self.wrong.lock().push(format!("letter {} was acknowledged too early", letter.number));
        }
    }

    async fn ask_all(&self, session: &AsyncSession, client: usize, task: usize) {
        for request in 0..self.script.requests {
            let place = (client * self.script.tasks + task) * self.script.requests + request;
            let id = place as i64 + 1;
            if self.script.silences > 0 && (id as u64).is_multiple_of(self.script.silences) {
                self.sleep(ms(self.script.lease_ms + 1)).await;
                self.db.sweep().unwrap();
            }
            if !session.is_live() {
                let _ = session.reopen().await;
            }
            let to = (client + 1) % self.script.clients;
            let session_to = name(&session_name(to));
            let payload = id.to_string().into_bytes();
            let send = SessionCommand::Send { session: session_to, payload };
            let answer = session.execute(add(&cell(id), id).step(send)).await;
            let told = answer.map(|receipt| sum(&Ok(receipt)));
            self.told.lock().push(Told { id, told });
        }
    }

    /// Delivers all delayed copies, and waits until all letters are handled.
    async fn end(&self, sessions: &[AsyncSession]) {
        for _ in 0..1000 {
            let settled = self.way.settle().await == 0;
            let is_empty = self.db.stats().sessions.pending == 0;
            if settled && (is_empty || self.script.silences > 0) {
                break;
            }
            self.sleep(ms(20)).await;
        }
        for session in sessions {
            let _ = session.close().await;
        }
        self.way.settle().await;
    }

    fn check(&self) {
        for Told { id, told } in &*self.told.lock() {
            let executed = value(&self.db, &cell(*id)) / id;
            if let Some(wrong) = self.judge(*id, told, executed) {
                self.wrong.lock().push(wrong);
            }
        }
        self.check_letters();
    }

    fn judge(
        &self,
        id: i64,
        told: &std::result::Result<i64, Error>,
        executed: i64,
    ) -> Option<String> {
        let wrong = |what: &str| Some(format!("operation {id} {what}: {executed} times, {told:?}"));
        match told {
            _ if executed > 1 => wrong("was executed more than once"),
            Ok(sum) if *sum != id => wrong("got an answer of another one"),
            Ok(_) if executed != 1 => wrong("was answered and not executed"),
            Ok(_) => None,
            Err(error) => match error.kind() {
                ErrorKind::UnknownOutcome => None,
                ErrorKind::SessionExpired if self.script.silences == 0 => wrong("lost its session"),
                ErrorKind::Unavailable | ErrorKind::SessionExpired if executed == 0 => None,
                ErrorKind::Unavailable | ErrorKind::SessionExpired => wrong("was executed"),
                _ => wrong("was told something strange"),
            },
        }
    }

    /// Checks that each letter was handled once, in order, and that all were if no session was lost.
    fn check_letters(&self) {
        let mut handled = 0;
        for (client, letters) in self.letters.iter().enumerate() {
            let letters = letters.lock();
            handled += letters.len() as u64;
            if !letters.is_sorted_by_key(|letter| letter.number)
                || letters.windows(2).any(|two| two[0].number == two[1].number)
            {
                self.wrong.lock().push(format!("client {client} handled {letters:?}"));
            }
        }
        let sent = self.db.stats().sessions.sent;
        if self.script.silences == 0 && handled != sent {
            self.wrong.lock().push(format!("{sent} letters were sent and {handled} handled"));
        }
    }
}

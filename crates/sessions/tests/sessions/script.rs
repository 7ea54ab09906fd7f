//! Random client programs in a simulation, and the invariants that must hold afterwards.
//!
//! Operation `u` adds `u` to its own cell. So the cell tells how often it was executed, and the sum in an
//! answer tells whose answer it is.

use super::*;
use mainstay::{Error, ErrorKind, SessionAnswer, SessionCommand};
use mainstay_sessions::simulation::{InlineTransport, SimulatedRuntime, Simulation};
use mainstay_sessions::{AsyncSession, Client, ClientFault, Faults, Faulty, ServerMessage};
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
    /// The server message handler fails one of this many times; 0: never.
    pub failures: u64,
    pub injected_fault: Option<ClientFault>,
}

/// The reported result of an operation.
#[derive(Debug)]
pub struct Reply {
    pub id: i64,
    pub result: std::result::Result<i64, Error>,
}

/// Result of a run.
pub struct Outcome {
    pub replies: Vec<Reply>,
    pub messages: Vec<Vec<ServerMessage>>,
    /// Violated invariants.
    pub wrong: Vec<String>,
    pub retries: u64,
}

struct World {
    script: Script,
    simulation: Arc<Simulation>,
    db: Database,
    transport: Arc<Faulty>,
    replies: Mutex<Vec<Reply>>,
    messages: Vec<Mutex<Vec<ServerMessage>>>,
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
            transport: Faulty::new(Arc::new(InlineTransport::new(&db)), self.faults),
            db,
            replies: Mutex::default(),
            messages: (0..self.clients).map(|_| Mutex::default()).collect(),
            wrong: Mutex::default(),
        });
        let retries = simulation.run(world.clone().play());
        simulation.end();
        world.check();
        let messages = world.messages.iter().map(|messages| messages.lock().clone()).collect();
        let replies = std::mem::take(&mut *world.replies.lock());
        let wrong = std::mem::take(&mut *world.wrong.lock());
        Outcome { replies, messages, wrong, retries }
    }
}

impl World {
    fn settings(&self) -> Settings {
        let Script { window, deadline_ms, injected_fault, .. } = self.script;
        Settings {
            window,
            deadline: Some(ms(deadline_ms)),
            attempt: ms(200),
            first_pause: ms(1),
            longest_pause: ms(50),
            // Keep-alives would break the silences.
            keeps_alive: self.script.silences == 0,
            seed: Some(self.script.faults.seed),
            injected_fault,
        }
    }

    async fn play(self: Arc<World>) -> u64 {
        let runtime = Arc::new(SimulatedRuntime(self.simulation.clone()));
        let client = Client::on(self.transport.clone(), self.settings(), runtime).unwrap();
        let mut sessions = Vec::new();
        for number in 0..self.script.clients {
            sessions.push(self.open(&client, number).await);
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        for (number, session) in sessions.iter().enumerate() {
            self.listen(session, number);
            for task in 0..self.script.tasks {
                let world = self.clone();
                let session = session.clone();
                let sender = sender.clone();
                self.simulation.spawn(async move {
                    world.ask_all(&session, number, task).await;
                    sender.send(()).unwrap();
                });
            }
        }
        drop(sender);
        let mut left = self.script.clients * self.script.tasks;
        while left > 0 {
            self.sleep(ms(10)).await;
            left -= receiver.try_iter().count();
        }
        self.end(&sessions).await;
        sessions.iter().map(|session| session.stats().retries).sum()
    }

    async fn sleep(&self, time: Duration) {
        use mainstay_sessions::Runtime;
        SimulatedRuntime(self.simulation.clone()).sleep(time).await;
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
        let handle = move |message: ServerMessage| {
            calls += 1;
            std::future::ready(world.handle(number, message, calls))
        };
        self.simulation.spawn(async move { session.listen(handle).await.unwrap() });
    }

    fn handle(&self, number: usize, message: ServerMessage, calls: u64) -> Result<()> {
        self.check_pending(number, &message);
        let failures = self.script.failures;
        match calls {
            _ if failures > 0 && calls.is_multiple_of(failures * 2) => panic!("on purpose"),
            _ if failures > 0 && calls.is_multiple_of(failures) => {
                Err(Error::new(mainstay::Code::Io, "on purpose"))
            }
            _ => {
                self.messages[number].lock().push(message);
                Ok(())
            }
        }
    }

    /// Checks that a server message is not acknowledged while it is being handled.
    fn check_pending(&self, number: usize, message: &ServerMessage) {
        if self.script.silences > 0 {
            return;
        }
        let session = name(&session_name(number));
        let after = message.number - 1;
        let pending = SessionCommand::Pending { session, after, limit: 1, epoch: 0 };
        let answer = self.db.execute(Transaction::new().step(pending)).unwrap().answers.remove(0);
        let is_pending = match answer {
            Answer::Session(answer) => match *answer {
                SessionAnswer::Pending { requests, .. } => {
                    requests.iter().any(|(number, _)| *number == message.number)
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        if !is_pending {
            self.wrong.lock().push(format!("letter {} was acknowledged too early", message.number));
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
            let result = answer.map(|receipt| sum(&Ok(receipt)));
            self.replies.lock().push(Reply { id, result });
        }
    }

    /// Delivers all delayed copies, and waits until all server messages are handled.
    async fn end(&self, sessions: &[AsyncSession]) {
        for _ in 0..1000 {
            let settled = self.transport.deliver_delayed().await == 0;
            let is_empty = self.db.stats().sessions.pending == 0;
            if settled && (is_empty || self.script.silences > 0) {
                break;
            }
            self.sleep(ms(20)).await;
        }
        for session in sessions {
            let _ = session.close().await;
        }
        self.transport.deliver_delayed().await;
    }

    fn check(&self) {
        for Reply { id, result } in &*self.replies.lock() {
            let executed = value(&self.db, &cell(*id)) / id;
            if let Some(wrong) = self.judge(*id, result, executed) {
                self.wrong.lock().push(wrong);
            }
        }
        self.check_letters();
    }

    fn judge(
        &self,
        id: i64,
        result: &std::result::Result<i64, Error>,
        executed: i64,
    ) -> Option<String> {
        let wrong =
            |what: &str| Some(format!("operation {id} {what}: {executed} times, {result:?}"));
        match result {
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

    /// Checks that each server message was handled once, in order, and that all were if no session was lost.
    fn check_letters(&self) {
        let mut handled = 0;
        for (client, messages) in self.messages.iter().enumerate() {
            let messages = messages.lock();
            handled += messages.len() as u64;
            if !messages.is_sorted_by_key(|message| message.number)
                || messages.windows(2).any(|two| two[0].number == two[1].number)
            {
                self.wrong.lock().push(format!("client {client} handled {messages:?}"));
            }
        }
        let sent = self.db.stats().sessions.sent;
        if self.script.silences == 0 && handled != sent {
            self.wrong.lock().push(format!("{sent} letters were sent and {handled} handled"));
        }
    }
}

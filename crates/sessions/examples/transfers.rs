//! Exactly-once example: money transfers over a network that loses three of ten requests and three of ten
//! answers.
//!
//! ```text
//!   4 clients, 4 threads each --> requests lost, late, twice --> one transaction: two accounts, a record, an event,
//!          ^                                                     an outbox message, a server message to the next client
//!          '--------- answers lost, message wakers broken <---------- executed once, its answer stored
//! ```
//!
//! It runs first without sessions, with plain retries, and then with them. Run it with `cargo run --example
//! transfers -p mainstay-sessions [seed]`.

use mainstay::remote::wait;
use mainstay::{
    CellCommand, Code, Database, Error, ErrorKind, Fields, Name, NewEvent, OutboxCommand,
    RecordCommand, RecordWrite, Result, RunCommand, SessionCommand, SessionOptions, Transaction,
};
use mainstay_sessions::{
    Client, ClientStats, FaultCounts, Faults, Faulty, Local, ServerMessage, Session, Settings,
    Transport,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const CLIENTS: usize = 4;
const THREADS: usize = 4;
const TRANSFERS: usize = 100;
const ALL: usize = CLIENTS * THREADS * TRANSFERS;
const ACCOUNTS: usize = 20;
const EACH: i64 = 1_000;

fn main() {
    let seed = std::env::args().nth(1).and_then(|seed| seed.parse().ok()).unwrap_or(7);
    if let Err(error) = run(seed) {
        eprintln!("transfers: {error}");
        std::process::exit(1);
    }
}

fn run(seed: u64) -> Result<()> {
    println!(
        "{CLIENTS} clients with {THREADS} threads each move money: {ALL} transfers between {ACCOUNTS} accounts."
    );
    println!(
        "On the way 30 % of the requests and 30 % of the answers are lost; some come twice, some late.\n"
    );
    let (plain, _) = bank(seed)?;
    without_sessions(&plain)?;
    println!(
        "  without sessions, asking again:  {:>5} of {ALL} were executed",
        executed(&plain.db)?
    );
    let (bank, transport) = bank(seed)?;
    let stats = with_sessions(&bank, &transport)?;
    println!(
        "  with sessions:                   {:>5} of {ALL} were executed\n",
        executed(&bank.db)?
    );
    report(&transport.fault_counts(), &stats);
    check(&bank)
}

/// A database with accounts, and a lossy transport to it.
struct Bank {
    db: Database,
    transport: Arc<Faulty>,
    /// The server messages that each client has handled.
    messages: [Mutex<Vec<ServerMessage>>; CLIENTS],
    /// Number of handler calls.
    calls: AtomicU64,
}

fn bank(seed: u64) -> Result<(Arc<Bank>, Arc<Faulty>)> {
    let db = Database::memory()?;
    for number in 0..ACCOUNTS {
        db.cells().set(&account(number), EACH)?;
    }
    let transport = Faulty::new(Local::new(&db)?, Faults::many(seed));
    let (messages, calls) = Default::default();
    Ok((Arc::new(Bank { db, transport: transport.clone(), messages, calls }), transport))
}

fn account(number: usize) -> String {
    format!("account/{:02}", number % ACCOUNTS)
}

fn client_name(client: usize) -> String {
    format!("client-{}", client % CLIENTS)
}

/// One atomic transfer: two accounts, a record, an event, an outbox message, and a server message to the next
/// client.
fn transfer(client: usize, id: usize) -> Result<Transaction> {
    let from = account(id);
    let to = account(id * 7 + 3);
    let amount = (id % 9 + 1) as i64;
    let add = |name: &str, by: i64| -> Result<CellCommand> {
        Ok(CellCommand::Incr { name: Name::new(name)?, by: by.into() })
    };
    let fields = Fields::of([("from", &*from), ("to", &*to), ("amount", &*amount.to_string())])?;
    let record = RecordWrite::of(&format!("transfer/{id:05}"), &fields, None)?;
    let event = Box::new(NewEvent::new("ledger", "Transferred").with_key(&id.to_string()));
    let subject = "transfers".to_owned();
    let payload = id.to_string().into_bytes();
    let message = SessionCommand::Send {
        session: Name::new(&client_name(client + 1))?,
        payload: payload.clone(),
    };
    Ok(Transaction::new()
        .step(add(&from, -amount)?)
        .step(add(&to, amount)?)
        .step(add("executed", 1)?)
        .step(RecordCommand::Write(Box::new(record)))
        .step(RunCommand::Append { event, expected: None })
        .step(OutboxCommand::Put { subject, payload, run: None })
        .step(message))
}

/// Lets every thread of every client execute its transfers.
fn in_threads(work: impl Fn(usize, usize) -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..CLIENTS * THREADS)
            .map(|number| scope.spawn(move || work_of(number, work)))
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| panicked())?)
    })
}

fn work_of(thread: usize, work: impl Fn(usize, usize) -> Result<()>) -> Result<()> {
    (0..TRANSFERS).try_for_each(|one| work(thread / THREADS, thread * TRANSFERS + one))
}

fn panicked() -> Error {
    Error::new(Code::MachineFailed, "a thread panicked")
}

/// Retries until an answer arrives, without request numbers.
fn without_sessions(bank: &Bank) -> Result<()> {
    in_threads(|client, id| {
        loop {
            match wait(bank.transport.execute(transfer(client, id)?)) {
                Err(error) if is_worth_trying_again(&error) => {}
                answer => return answer.map(drop),
            }
        }
    })
}

fn is_worth_trying_again(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::UnknownOutcome)
}

/// The same with one session per client. Nothing else changes.
fn with_sessions(bank: &Arc<Bank>, transport: &Arc<Faulty>) -> Result<ClientStats> {
    let first_pause = Duration::from_micros(50);
    let settings =
        Settings { first_pause, longest_pause: Duration::from_millis(2), ..Settings::default() };
    let client = Client::with(transport.clone(), settings)?;
    let sessions = (0..CLIENTS)
        .map(|number| client.open(SessionOptions::new().name(&client_name(number))))
        .collect::<Result<Vec<Session>>>()?;
    let listen = |(number, session): (usize, &Session)| {
        let bank = bank.clone();
        session.listen(move |message| bank.handle(number, message))
    };
    let listeners = sessions.iter().enumerate().map(listen).collect::<Result<Vec<_>>>()?;
    in_threads(|client, id| sessions[client].execute(transfer(client, id)?).map(drop))?;
    bank.wait_for_letters();
    drop(listeners);
    // Late copies still arrive, and must change nothing.
    wait(transport.deliver_delayed());
    Ok(sessions.iter().fold(ClientStats::default(), |all, session| all + session.stats()))
}

impl Bank {
    fn messages(&self, client: usize) -> std::sync::MutexGuard<'_, Vec<ServerMessage>> {
        self.messages[client].lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Handles a server message. Fails sometimes: then the server message is redelivered, and later server messages wait behind it.
    fn handle(&self, client: usize, message: ServerMessage) -> Result<()> {
        if self.calls.fetch_add(1, Ordering::Relaxed) % 10 == 9 {
            return Err(Error::new(Code::Io, "the printer is out of paper"));
        }
        self.messages(client).push(message);
        Ok(())
    }

    fn wait_for_letters(&self) {
        while (0..CLIENTS).map(|client| self.messages(client).len()).sum::<usize>() < ALL {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn executed(db: &Database) -> Result<i64> {
    Ok(db.cells().get("executed")?.and_then(|value| value.as_i64()).unwrap_or(0))
}

fn report(fault_counts: &FaultCounts, stats: &ClientStats) {
    let line = |what: &str, count: u64| println!("  {what:<46} {count:>6}");
    println!("On the way");
    line("requests lost", fault_counts.requests);
    line("answers lost", fault_counts.answers);
    line("requests and copies that came late", fault_counts.late);
    line("requests that came twice at once", fault_counts.repeated);
    line("refused for now", fault_counts.refused);
    println!("In the clients");
    line("transfers asked for", stats.requests);
    line("attempts beyond the first", stats.retries);
    line("answers that an earlier attempt had earned", stats.repeated);
    line("letters whose handler failed: they came again", stats.messages_failed);
    line("letters handled, each once and in order", stats.messages);
}

/// Fails if anything is missing or was executed twice.
fn check(bank: &Bank) -> Result<()> {
    let db = &bank.db;
    let balance = |number| -> Result<i64> {
        Ok(db.cells().get(&account(number))?.and_then(|value| value.as_i64()).unwrap_or(0))
    };
    let total = (0..ACCOUNTS).map(balance).sum::<Result<i64>>()?;
    let counts = [
        ("executions", executed(db)? as u64),
        ("records", db.records().count("transfer/", &[])?),
        ("events", db.runs().fetch("ledger", 0, 10 * ALL)?.len() as u64),
        ("messages", db.outbox().state()?.pending),
    ];
    println!("In the database");
    for (what, count) in counts {
        println!("  {what:<46} {count:>6}");
    }
    println!("  {:<46} {total:>6}", "money");
    let in_order = (0..CLIENTS).all(|client| {
        let messages = bank.messages(client);
        messages.iter().zip(1..).all(|(message, number)| message.number == number)
    });
    let exact = counts.iter().all(|(_, count)| *count == ALL as u64);
    if exact && in_order && total == ACCOUNTS as i64 * EACH {
        println!("\nEverything happened exactly once.");
        Ok(())
    } else {
        Err(Error::new(Code::CorruptData, "something is missing, or there twice"))
    }
}

//! Operations, the requests of clients. Each writes to several contracts atomically.
//!
//! ```text
//!   op/17 + 1          how often it was executed
//!   seq + 1            its position among all: the sum is its answer
//!   account/2 - 5, account/0 + 5
//!   book/1 { op17 }    a record            run/0 event { key: op17 }     a run
//!   keyed 17 @ 17      keyed state         outbox { op17 }               a message
//!   send 17            a request to another client
//! ```

use mainstay::{
    CellCommand, Command, Durability, Guard, Name, NewEvent, Number, OutboxCommand, RecordWrite,
    Result, RunCommand, SessionCommand, StateCommand, StateWrite, Transaction, Ttl,
};
use mainstay_conformance::random::Random;

/// The number of accounts. The sum of their balances is always zero.
pub const ACCOUNTS: u64 = 5;
/// The number of runs.
pub const RUNS: u64 = 3;
/// The number of records.
pub const RECORDS: u64 = 4;
/// The cell that counts all operations.
pub const SEQUENCE: &str = "seq";
/// The space of keyed state.
pub const SPACE: &str = "keyed";
/// The counter in the guard of a transaction that must fail, because no key has it.
const NO_COUNTER: u64 = 1 << 40;

/// A request of a client.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its unique number.
    pub id: u64,
    /// The durability required before it is answered.
    pub durability: Durability,
    /// The optional writes of the operation.
    pub parts: Parts,
    /// Whether it contains a failing guard, so that nothing is executed.
    pub fails: bool,
    /// The client that it sends a message to.
    pub letter: Option<usize>,
    amount: i64,
    from: u64,
    to: u64,
}

/// The optional writes of an operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    /// A field of a record.
    pub record: bool,
    /// An event of a run.
    pub event: bool,
    /// An entry of keyed state.
    pub state: bool,
    /// A message in the outbox.
    pub message: bool,
    /// A record that expires soon.
    pub flash: bool,
}

/// Returns the name of a client's session.
pub fn session(client: usize) -> String {
    format!("client-{client}")
}

/// Returns the cell in which an operation counts its executions.
pub fn mark(id: u64) -> String {
    format!("op/{id}")
}

/// Returns the name of an operation in other contracts.
pub fn label(id: u64) -> String {
    format!("op{id}")
}

/// Returns the name of an account.
pub fn account(k: u64) -> String {
    format!("account/{k}")
}

/// Returns the name of a run.
pub fn run(k: u64) -> String {
    format!("run/{k}")
}

/// Returns the key of a record.
pub fn record(k: u64) -> String {
    format!("book/{k}")
}

impl Operation {
    /// Returns a random operation.
    pub fn by_chance(id: u64, clients: usize, loose: bool, random: &mut Random) -> Operation {
        let durability = if loose && random.chance(50) {
            [Durability::Interval, Durability::Memory][random.below(2) as usize]
        } else {
            Durability::Sync
        };
        let mut maybe = || random.chance(50);
        let record = maybe();
        let event = maybe();
        let state = maybe();
        let message = maybe();
        let parts = Parts { record, event, state, message, flash: random.chance(20) };
        let letter = random.chance(50).then(|| random.below(clients as u64) as usize);
        Operation {
            id,
            durability,
            parts,
            fails: random.chance(5),
            letter,
            amount: random.below(100) as i64,
            from: random.below(ACCOUNTS),
            to: random.below(ACCOUNTS),
        }
    }

    /// Returns the operation as a transaction.
    pub fn transaction(&self) -> Result<Transaction> {
        let mut transaction = Transaction::new()
            .step(add(&mark(self.id), 1)?)
            .step(add(SEQUENCE, 1)?)
            .step(add(&account(self.from), -self.amount)?)
            .step(add(&account(self.to), self.amount)?)
            .durability(self.durability);
        for command in self.commands()? {
            transaction = transaction.step(command);
        }
        Ok(if self.fails {
            let name = Name::new(SEQUENCE)?;
            transaction.guard(Guard::Counter { name, is: Some(NO_COUNTER) })
        } else {
            transaction
        })
    }

    fn commands(&self) -> Result<Vec<Command>> {
        let id = self.id;
        let label = label(self.id);
        let mut commands: Vec<Command> = Vec::new();
        if self.parts.record {
            let write = RecordWrite::to(&record(id % RECORDS))?.set(&label, id.to_string())?;
            commands.push(write.into());
        }
        if self.parts.flash {
            let write = RecordWrite::to(&format!("flash/{}", id % RECORDS))?;
            commands.push(write.set("by", label.clone())?.ttl(Ttl::Millis(50 + id)).into());
        }
        if self.parts.event {
            let event = NewEvent::new(&run(id % RUNS), "Noted").with_key(&label).value(id as i64);
            commands.push(RunCommand::Append { event: Box::new(event), expected: None }.into());
        }
        if self.parts.state {
            let writes = vec![StateWrite::put(label.clone(), label.clone(), id)];
            commands.push(StateCommand::Write { space: Name::new(SPACE)?, writes }.into());
        }
        if self.parts.message {
            let subject = "done".to_owned();
            let payload = label.into_bytes();
            commands.push(OutboxCommand::Put { subject, payload, run: None }.into());
        }
        if let Some(to) = self.letter {
            let session = Name::new(&session(to))?;
            let payload = id.to_string().into_bytes();
            commands.push(SessionCommand::Send { session, payload }.into());
        }
        Ok(commands)
    }
}

fn add(cell: &str, by: i64) -> Result<CellCommand> {
    Ok(CellCommand::Incr { name: Name::new(cell)?, by: Number::Int(by) })
}

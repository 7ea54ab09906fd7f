//! Operations: what clients ask for. Each leaves something in several contracts, all of it or nothing.
//!
//! ```text
//!   op/17 + 1          how often it was executed
//!   seq + 1            which one of all it was: the sum is its answer
//!   account/2 - 5, account/0 + 5
//!   book/1 { op17 }    a record            run/0 event { key: op17 }     a run
//!   keyed 17 @ 17      keyed state         outbox { op17 }               a message
//!   send 17            a letter to another client
//! ```

use mainstay::{
    CellCommand, Command, Durability, Guard, Name, NewEvent, Number, OutboxCommand, RecordWrite,
    Result, RunCommand, SessionCommand, StateCommand, StateWrite, Transaction, Ttl,
};
use mainstay_conformance::random::Random;

/// How many accounts there are; together they hold nothing at all times.
pub const ACCOUNTS: u64 = 5;
/// How many runs there are.
pub const RUNS: u64 = 3;
/// How many records there are.
pub const RECORDS: u64 = 4;
/// The cell that counts all operations.
pub const SEQUENCE: &str = "seq";
/// The space of keyed state.
pub const SPACE: &str = "keyed";
/// What a transaction that must fail asks for: nothing has a counter like that.
const NO_COUNTER: u64 = 1 << 40;

/// What a client asks for.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its number; no other operation has it.
    pub id: u64,
    /// How durable it is before it is answered.
    pub durability: Durability,
    /// What it leaves beside its cells.
    pub parts: Parts,
    /// A guard fails: nothing is executed.
    pub fails: bool,
    /// The client that it sends a letter to.
    pub letter: Option<usize>,
    amount: i64,
    from: u64,
    to: u64,
}

/// What an operation leaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    /// A field of a record.
    pub record: bool,
    /// An event of a run.
    pub event: bool,
    /// A state.
    pub state: bool,
    /// A message.
    pub message: bool,
    /// A record that is over soon.
    pub flash: bool,
}

/// The session of a client.
pub fn session(client: usize) -> String {
    format!("client-{client}")
}

/// The cell that an operation counts itself in.
pub fn mark(id: u64) -> String {
    format!("op/{id}")
}

/// What an operation is called elsewhere.
pub fn label(id: u64) -> String {
    format!("op{id}")
}

/// An account.
pub fn account(k: u64) -> String {
    format!("account/{k}")
}

/// A run.
pub fn run(k: u64) -> String {
    format!("run/{k}")
}

/// A record.
pub fn record(k: u64) -> String {
    format!("book/{k}")
}

impl Operation {
    /// An operation by chance.
    pub fn by_chance(id: u64, clients: usize, loose: bool, random: &mut Random) -> Operation {
        let durability = match loose && random.chance(50) {
            true => [Durability::Interval, Durability::Memory][random.below(2) as usize],
            false => Durability::Sync,
        };
        let mut maybe = || random.chance(50);
        let (record, event, state, message) = (maybe(), maybe(), maybe(), maybe());
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

    /// It, as a transaction.
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
        Ok(match self.fails {
            true => {
                let name = Name::new(SEQUENCE)?;
                transaction.guard(Guard::Counter { name, is: Some(NO_COUNTER) })
            }
            false => transaction,
        })
    }

    fn commands(&self) -> Result<Vec<Command>> {
        let (id, label) = (self.id, label(self.id));
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
            let (subject, payload) = ("done".to_owned(), label.into_bytes());
            commands.push(OutboxCommand::Put { subject, payload, run: None }.into());
        }
        if let Some(to) = self.letter {
            let (session, payload) = (Name::new(&session(to))?, id.to_string().into_bytes());
            commands.push(SessionCommand::Send { session, payload }.into());
        }
        Ok(commands)
    }
}

fn add(cell: &str, by: i64) -> Result<CellCommand> {
    Ok(CellCommand::Incr { name: Name::new(cell)?, by: Number::Int(by) })
}

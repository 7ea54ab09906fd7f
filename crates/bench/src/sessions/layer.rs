//! Overhead of sessions: the same transactions by 64 clients, with and without a session.

use crate::context::{Context, Outcome};
use crate::forms::threads;
use crate::harness::{Side, interleave};
use crate::workload::Random;
use mainstay::{CellCommand, Database, Name, Options, Session, SessionOptions, Transaction};

const CLIENTS: usize = 64;
const ACCOUNTS: usize = 1_000;

/// The load of the clients.
#[derive(Clone, Copy)]
struct Work {
    name: &'static str,
    make: fn(&mut Random) -> Outcome<Transaction>,
}

const WORKS: [Work; 2] =
    [Work { name: "set", make: set }, Work { name: "transfer between two cells", make: transfer }];

fn account(random: &mut Random) -> Outcome<Name> {
    Ok(Name::new(&format!("account:{:05}", random.below(ACCOUNTS)))?)
}

fn set(random: &mut Random) -> Outcome<Transaction> {
    let amount = random.below(1_000) as i64;
    Ok(Transaction::new().step(CellCommand::set(account(random)?, amount)))
}

fn transfer(random: &mut Random) -> Outcome<Transaction> {
    let mut add = |by: i64| Ok(CellCommand::Incr { name: account(random)?, by: by.into() });
    let from: Outcome<CellCommand> = add(-1);
    let to: Outcome<CellCommand> = add(1);
    Ok(Transaction::new().step(from?).step(to?))
}

/// A client: its session, and the number of its last request.
struct Client {
    session: Session,
    number: u64,
    random: Random,
}

/// Runs both loads.
pub fn run(context: &mut Context) -> Outcome<()> {
    for work in WORKS {
        let case = format!("{}, sync, {CLIENTS} clients with sessions", work.name);
        if !context.wants(&case) {
            continue;
        }
        let directory = context.directory("layer")?;
        let database = Options::new().open(directory.path().join("ours"))?;
        let mut with = clients(&database)?;
        let mut without = clients(&database)?;
        let db = &database;
        let mut workers: Vec<_> = with
            .iter_mut()
            .map(|client| {
                move || {
                    client.number += 1;
                    let transaction = (work.make)(&mut client.random)?;
                    // The client waits for each answer, so it has received all earlier ones.
                    client.session.execute(client.number, client.number, transaction)?;
                    Ok(())
                }
            })
            .collect();
        let mut plain: Vec<_> = without
            .iter_mut()
            .map(|client| {
                move || {
                    db.execute((work.make)(&mut client.random)?)?;
                    Ok(())
                }
            })
            .collect();
        let mut sides = [
            Side::new("with sessions", |slice| threads(&mut workers, 1, slice)),
            Side::new("without", |slice| threads(&mut plain, 1, slice)),
        ];
        let measured = interleave(&mut sides, context.disk_bar())?;
        drop(sides);
        context.report.compare(&case, &measured, Some(0.75));
    }
    Ok(())
}

/// Clients with a session each, whether they use it or not.
fn clients(database: &Database) -> Outcome<Vec<Client>> {
    let client = |seed: usize| {
        let session = database.sessions().open(SessionOptions::new())?;
        Ok(Client { session, number: 0, random: Random::new(seed as u64) })
    };
    (0..CLIENTS).map(client).collect()
}

//! Mutation testing: injects faults into the database and checks that each is found.

use mainstay::fault_points::InjectedFault;
use mainstay_sessions::ClientFault;
use mainstay_sim::drill::Outcome;
use mainstay_sim::planted::{Catch, Check, check_of, hunt, hunt_all, hunt_in_clients};

/// Hunts for all injected faults, or for those with these names.
pub fn all(names: &[String], seed: u64) -> Outcome<()> {
    let program = std::env::current_exe().map_err(|error| format!("where am I: {error}"))?;
    let wanted = match names {
        [] => InjectedFault::ALL.to_vec(),
        names => names.iter().map(|name| find(name)).collect::<Outcome<_>>()?,
    };
    let catches = hunt_all(&program, seed, &wanted, say)?;
    let missed: Vec<_> = catches.iter().filter(|catch| catch.found.is_none()).collect();
    let models = wanted.iter().filter(|bug| check_of(**bug) == Check::Models).count();
    println!(
        "{models} more are found by models: cargo test -p mainstay --features model-checking,planted --test models"
    );
    println!("{} of {} planted bugs found", catches.len() - missed.len(), catches.len());
    let clients = if names.is_empty() { hunt_in_clients(seed, say_of_client)? } else { Vec::new() };
    match (missed.as_slice(), clients.as_slice()) {
        ([], []) => Ok(()),
        (missed, clients) => {
            let bugs: Vec<_> = missed.iter().map(|catch| catch.bug).collect();
            Err(format!("not found: {bugs:?}, of clients {clients:?}"))
        }
    }
}

fn say_of_client(bug: ClientFault, found: Option<&str>) {
    let found = found.map_or("NOT FOUND".to_owned(), |what| format!("found: {what}"));
    println!("{:<26} of clients, in worlds, {}", format!("{bug:?}"), brief(&found));
}

fn brief(text: &str) -> String {
    text.chars().take(140).collect()
}

/// Injects one fault and runs one of its checks.
pub fn one(name: &str, nth: usize, seed: u64) -> Outcome<()> {
    hunt(find(name)?, seed, nth)
}

pub fn find(name: &str) -> Outcome<InjectedFault> {
    let bug = InjectedFault::ALL.iter().find(|bug| format!("{bug:?}") == name);
    bug.copied().ok_or_else(|| format!("there is no bug `{name}`"))
}

fn say(catch: &Catch) {
    let Catch { bug, check, found, took } = catch;
    match found {
        Some(what) => {
            println!(
                "{:<26} found by {check}, {} s: {}",
                format!("{bug:?}"),
                took.as_secs(),
                brief(what)
            );
        }
        None => println!("{:<26} NOT FOUND by {check}", format!("{bug:?}")),
    }
}

//! Bugs that are planted: each is to be found.

use mainstay::planted::Bug;
use mainstay_sim::drill::Outcome;
use mainstay_sim::planted::{Catch, Check, check_of, hunt, hunt_all};

/// Looks for all of them, or for these.
pub fn all(names: &[String], seed: u64) -> Outcome<()> {
    let program = std::env::current_exe().map_err(|error| format!("where am I: {error}"))?;
    let wanted = match names {
        [] => Bug::ALL.to_vec(),
        names => names.iter().map(|name| find(name)).collect::<Outcome<_>>()?,
    };
    let catches = hunt_all(&program, seed, &wanted, say)?;
    let missed: Vec<_> = catches.iter().filter(|catch| catch.found.is_none()).collect();
    let models = wanted.iter().filter(|bug| check_of(**bug) == Check::Models).count();
    println!(
        "{models} more are found by models: cargo test -p mainstay --features model-checking,planted --test models"
    );
    println!("{} of {} planted bugs found", catches.len() - missed.len(), catches.len());
    match missed.as_slice() {
        [] => Ok(()),
        missed => Err(format!(
            "not found: {:?}",
            missed.iter().map(|catch| catch.bug).collect::<Vec<_>>()
        )),
    }
}

/// Plants one, and runs one of its checks.
pub fn one(name: &str, nth: usize, seed: u64) -> Outcome<()> {
    hunt(find(name)?, seed, nth)
}

pub fn find(name: &str) -> Outcome<Bug> {
    let bug = Bug::ALL.iter().find(|bug| format!("{bug:?}") == name);
    bug.copied().ok_or_else(|| format!("there is no bug `{name}`"))
}

fn say(catch: &Catch) {
    let Catch { bug, check, found } = catch;
    match found {
        Some(what) => {
            let what: String = what.chars().take(140).collect();
            println!("{:<26} found by {check}: {what}", format!("{bug:?}"));
        }
        None => println!("{:<26} NOT FOUND by {check}", format!("{bug:?}")),
    }
}

//! The state machine framework alone: a bank as a user-defined machine, with and without sessions.

use super::retries::RESPONSES;
use crate::context::{Context, Outcome, short_count};
use crate::harness::median;
use crate::report::Row;
use mainstay::{Name, SessionRequest, Stamp};
use mainstay_state_machine::{Context as Call, Input, Outcome as Reply, SessionMachine, StateView};
use mainstay_state_machine::{Table, UserStateMachine};
use serde::{Deserialize, Serialize};
use std::time::Instant;

const REQUESTS: usize = 1_000_000;
const SESSIONS: usize = 10_000;
const ACCOUNTS: u64 = 1_000;
const ROUNDS: usize = 5;

const BALANCES: Table<u64, i64> = Table::new("balances");

struct Bank;

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Transfer {
    from: u64,
    to: u64,
}

impl UserStateMachine for Bank {
    const NAME: &'static str = "bank";
    const VERSION: u32 = 1;
    type Command = Transfer;
    type Response = i64;
    type Request = String;

    fn apply(
        &self,
        state: &mut StateView<'_>,
        _: &Call<'_>,
        transfer: Transfer,
    ) -> mainstay::Result<Reply<i64, String>> {
        let from = BALANCES.get(state, &transfer.from)?.unwrap_or(0) - 1;
        let to = BALANCES.get(state, &transfer.to)?.unwrap_or(0) + 1;
        BALANCES.put(state, &transfer.from, &from)?;
        BALANCES.put(state, &transfer.to, &to)?;
        Ok(Reply::new(from))
    }
}

fn transfer(n: u64) -> Transfer {
    Transfer { from: n * 7 % ACCOUNTS, to: (n * 13 + 1) % ACCOUNTS }
}

/// Runs both cases.
pub fn run(context: &mut Context) -> Outcome<()> {
    requests(context)?;
    snapshots(context)
}

/// Transfers as requests of 64 sessions, and as commands without a session.
fn requests(context: &mut Context) -> Outcome<()> {
    let count = context.sized(REQUESTS) as u64;
    let case =
        format!("machine in memory, {} requests of 64 sessions", short_count(count as usize));
    if !context.wants(&case) {
        return Ok(());
    }
    let mut with = Vec::new();
    let mut without = Vec::new();
    for _ in 0..ROUNDS {
        with.push(in_sessions(count)?);
        without.push(of_nobody(count)?);
    }
    let with = median(&mut with);
    let without = median(&mut without);
    context.report.add(Row::larger(&case, "op/s", with, ("without sessions", without)));
    Ok(())
}

fn in_sessions(count: u64) -> Outcome<f64> {
    let mut machine: SessionMachine<Bank> = SessionMachine::new(Bank);
    let names: Vec<Name> = (0..64).map(name).collect::<Outcome<_>>()?;
    for name in &names {
        done(machine.apply(1, &Input::open(name.clone())).answer)?;
    }
    let mut inputs = Vec::new();
    for n in 0..count {
        let name = &names[(n % 64) as usize];
        let number = n / 64 + 1;
        let request = SessionRequest::new(name.clone(), number, number);
        inputs.push(SessionMachine::<Bank>::request(request, &transfer(n))?);
    }
    rate(machine, &inputs)
}

fn of_nobody(count: u64) -> Outcome<f64> {
    let machine: SessionMachine<Bank> = SessionMachine::new(Bank);
    let inputs = (0..count).map(|n| SessionMachine::<Bank>::internal(&transfer(n)));
    let inputs: Vec<Input> = inputs.collect::<mainstay::Result<_>>()?;
    rate(machine, &inputs)
}

fn rate(mut machine: SessionMachine<Bank>, inputs: &[Input]) -> Outcome<f64> {
    let started = Instant::now();
    for (n, input) in inputs.iter().enumerate() {
        done(machine.apply(2 + n as Stamp, input).answer)?;
    }
    Ok(inputs.len() as f64 / started.elapsed().as_secs_f64())
}

fn done<T>(answer: mainstay::Result<T>) -> Outcome<()> {
    Ok(answer.map(|_| ())?)
}

fn name(n: u64) -> Outcome<Name> {
    Ok(Name::new(&format!("client-{n:05}"))?)
}

/// A snapshot of many sessions with responses, and its restore.
fn snapshots(context: &mut Context) -> Outcome<()> {
    let count = context.sized(SESSIONS);
    let many = short_count(count);
    let cases = [
        format!("snapshot of {many} sessions, {RESPONSES} responses each"),
        format!("restore of {many} sessions, {RESPONSES} responses each"),
    ];
    if !cases.iter().any(|case| context.wants(case)) {
        return Ok(());
    }
    let machine = full(count as u64)?;
    let mut there = Vec::new();
    let mut back = Vec::new();
    let mut bytes = Vec::new();
    for _ in 0..ROUNDS {
        bytes.clear();
        let started = Instant::now();
        let written = machine.snapshot_to(&mut bytes)?;
        there.push(started.elapsed().as_secs_f64());
        let started = Instant::now();
        let restored: SessionMachine<Bank> = SessionMachine::restore(Bank, bytes.as_slice())?;
        back.push(started.elapsed().as_secs_f64());
        if restored.hash() != written.hash {
            return Err("the machine is another one".into());
        }
    }
    let [snapshot, restore] = &cases;
    let mib = bytes.len() as f64 / f64::from(1 << 20);
    context.report.add(Row::figure(snapshot, "s", median(&mut there)));
    context.report.add(Row::figure(snapshot, "MiB", mib));
    context.report.add(Row::figure(restore, "s", median(&mut back)));
    Ok(())
}

fn full(sessions: u64) -> Outcome<SessionMachine<Bank>> {
    let mut machine: SessionMachine<Bank> = SessionMachine::new(Bank);
    let mut now = 1;
    for n in 0..sessions {
        let name = name(n)?;
        done(machine.apply(now, &Input::open(name.clone())).answer)?;
        for number in 1..=RESPONSES {
            now += 1;
            let request = SessionRequest::new(name.clone(), number, 1);
            let input = SessionMachine::<Bank>::request(request, &transfer(number))?;
            done(machine.apply(now, &input).answer)?;
        }
    }
    Ok(machine)
}

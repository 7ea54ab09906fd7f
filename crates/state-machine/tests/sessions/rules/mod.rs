//! An example for each rule of the contract.

mod letters;
mod requests;
mod sessions;

use crate::sample::*;
use mainstay_model::{Code, KeptLimits, MAILBOX_LIMIT, Result, SESSION_LEASE_MS, SessionRequest};
use mainstay_state_machine::*;

const ADD: What = What::Add { key: 1, n: 1 };

fn opened(limits: Limits) -> Machine {
    let mut machine = machine(limits);
    machine.apply(0, &open("a", 60_000)).answer.unwrap();
    machine
}

fn count(machine: &Machine) -> i64 {
    COUNTS.get(&machine.state(), &1).unwrap().unwrap_or(0)
}

fn refusal(output: &Output) -> Code {
    output.answer.as_ref().unwrap_err().code()
}

/// The error code of an aborted command, and whether the answer was a repeat.
fn abortion(output: &Output) -> (Code, bool) {
    match output.response().unwrap() {
        Response { reply: Reply::Aborted(error), is_repeat } => (error.code(), *is_repeat),
        other => panic!("it was not aborted: {other:?}"),
    }
}

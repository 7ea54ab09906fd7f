//! Memory is bounded, however many sessions and requests exist.

use crate::sample::name;
use mainstay_model::{KeptLimits, Name, Result, SessionRequest};
use mainstay_state_machine::*;

/// A machine that returns one byte and has no state.
struct Echo;

impl UserStateMachine for Echo {
    const NAME: &'static str = "echo";
    const VERSION: u32 = 1;
    type Command = u8;
    type Response = u8;
    type Request = u8;

    fn apply(&self, _: &mut StateView<'_>, _: &Context<'_>, word: u8) -> Result<Outcome<u8, u8>> {
        Ok(Outcome::new(word))
    }
}

const SESSIONS: usize = 10_000;
const REQUESTS: u64 = 1_000;

#[test]
fn ten_thousand_sessions_with_a_thousand_requests_each_stay_within_bounds() {
    let kept = KeptLimits { count: 8, bytes: 6 };
    let mut machine =
        SessionMachine::<Echo>::with_limits(Echo, Limits { kept, ..Limits::default() }).unwrap();
    // In reverse order, so that each session is inserted first. The test is about memory, and this halves its
    // time.
    for n in (0..SESSIONS).rev() {
        let session = name(&format!("{n:05}"));
        machine.apply(1, &Input::open(session.clone())).answer.unwrap();
        ask(&mut machine, session);
    }
    let usage = machine.usage();
    assert_eq!(
        (usage.sessions, usage.kept, usage.kept_bytes),
        (SESSIONS, 6 * SESSIONS, 6 * SESSIONS)
    );
    assert_eq!((usage.pending, usage.formers, usage.keys), (0, 0, 0));
    assert_eq!(machine.counters().executed, SESSIONS as u64 * REQUESTS);
    assert_eq!(machine.counters().evicted, SESSIONS as u64 * (REQUESTS - 6));
    let written = machine.snapshot_to(std::io::sink()).unwrap();
    assert!(written.bytes < 100 * SESSIONS as u64, "{written:?}");
}

/// A client that never reports which responses it received.
fn ask(machine: &mut SessionMachine<Echo>, session: Name) {
    let request = SessionRequest::new(session, 1, 0);
    let mut input = Input::Request { request, command: vec![7] };
    for id in 1..=REQUESTS {
        if let Input::Request { request, .. } = &mut input {
            request.request_id = id;
        }
        machine.apply(1, &input);
    }
}

#[test]
fn sessions_that_are_gone_are_forgotten_in_the_end() {
    let limits = Limits { formers: 100, ..Limits::default() };
    let mut machine = SessionMachine::<Echo>::with_limits(Echo, limits).unwrap();
    for n in 0..1_000 {
        let session = name(&format!("session-{n}"));
        machine.apply(n, &Input::open(session.clone()));
        let request = SessionRequest::new(session.clone(), 1, 1);
        machine.apply(n, &Input::Request { request, command: vec![7] });
        machine.apply(n, &Input::Close { session });
        assert!(machine.usage().formers <= 100);
    }
    let usage = machine.usage();
    assert_eq!((usage.formers, usage.sessions, usage.kept, usage.pending), (100, 0, 0, 0));
}

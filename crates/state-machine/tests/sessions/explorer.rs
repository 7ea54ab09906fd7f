//! Model-based test: random programs run on the machine, on a twin that is never restored, and on the model.
//! All answers and the whole state must agree after every step.

use crate::oracle::{Expected, Oracle};
use crate::program::{Act, Clients, Step, program};
use crate::sample::{COUNTS, GONE, Machine, NAMES, Sample, VISITS, machine, name};
use mainstay_model::{SessionInfo, SessionRequest};
use mainstay_state_machine::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRng, TestRunner};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

type Checked = Result<(), String>;
/// The number of answers of each kind, by their first words.
type Met = Rc<RefCell<BTreeMap<String, u64>>>;

#[test]
fn random_programs_come_to_what_the_model_says() {
    let met = explore(Look::Everything, 1_500, 80).unwrap_or_else(|why| panic!("{why}"));
    let often = [
        "opened created=true",
        "opened created=false",
        "Number error=false repeat=false",
        "Number error=false repeat=true",
        "Number error=true repeat=true",
        "Names error=false repeat=true",
        "Blob error=false repeat=true",
        "aborted MachineFailed repeat=true",
        "aborted Overflow repeat=true",
        "aborted ValueTooLarge repeat=false",
        "aborted MailboxFull repeat=false",
        "aborted InvalidValue repeat=false",
        "refused SessionExpired",
        "refused ResponseEvicted",
        "refused TooManySessions",
        "refused MachineFailed",
        "refused MailboxFull",
        "refused InvalidArgument",
        "ended true",
        "expired 1",
        "acknowledged 1",
        "sent Some",
        "sent None",
        "resent",
        "evicted",
        "hooks_failed",
        "forgotten",
        "restored",
    ];
    for kind in often {
        assert!(
            met.get(kind).is_some_and(|times| *times > 20),
            "{kind} was met too rarely: {met:#?}"
        );
    }
}

#[test]
fn long_programs_come_to_what_the_model_says() {
    let run = explore(Look::Everything, 60, 1_000);
    run.map(drop).unwrap_or_else(|why| panic!("{why}"));
}

/// A longer run, started by hand.
#[test]
#[ignore = "takes minutes"]
fn very_many_programs_come_to_what_the_model_says() {
    let run = explore(Look::Everything, 50_000, 120);
    run.map(drop).unwrap_or_else(|why| panic!("{why}"));
}

/// The parts that are compared with the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Look {
    #[cfg_attr(not(feature = "planted-faults"), allow(dead_code))]
    /// Only the parts that a client can see: answers, requests to it, and that no request is executed twice.
    Answers,
    /// Also all queries of a machine, and the hash of the twin that is never restored.
    Everything,
}

/// Runs random programs from a fixed seed. Returns the kinds of answers, or the first difference, shrunk as
/// far as possible.
pub fn explore(look: Look, programs: u32, steps: usize) -> Result<BTreeMap<String, u64>, String> {
    let met = Met::default();
    let config = Config { cases: programs, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(config.rng_algorithm);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let run = |(limits, steps): (Limits, Vec<Step>)| {
        run(look, &met, limits, &steps).map_err(TestCaseError::fail)
    };
    runner.run(&program(steps), run).map_err(|error| match error {
        TestError::Fail(why, (limits, steps)) => format!("{why}\n{limits:?}\n{steps:#?}"),
        TestError::Abort(why) => format!("{why}"),
    })?;
    Ok(met.take())
}

/// The log entries of a program, with their timestamps.
pub fn log(limits: Limits, steps: &[Step]) -> Vec<(u64, Input)> {
    let mut machine = machine(limits);
    let mut clients = Clients::default();
    let mut now = 1_000_000_u64;
    let mut log = Vec::new();
    for step in steps {
        now += step.after_us;
        let Some(input) = clients.input(&step.act, now, |who| {
            machine.info(&name(NAMES[who])).map_or(0, |info| info.last_sent)
        }) else {
            continue;
        };
        machine.apply(now, &input);
        log.push((now, input));
    }
    log
}

/// The requests in an output that are new, and not resent.
pub fn sent_anew<'o>(input: &Input, output: &'o Output) -> &'o [ServerRequest] {
    match input {
        Input::Retry { .. } => &[],
        _ => &output.requests,
    }
}

struct Run {
    look: Look,
    met: Met,
    machine: Machine,
    /// The same machine, but never restored from a snapshot.
    twin: Machine,
    oracle: Oracle,
    clients: Clients,
    now: u64,
}

fn run(look: Look, met: &Met, limits: Limits, steps: &[Step]) -> Checked {
    let (machine, twin) = (machine(limits), self::machine(limits));
    let oracle = Oracle::new(limits);
    let clients = Clients::default();
    let met = Rc::clone(met);
    let mut run = Run { look, met, machine, twin, oracle, clients, now: 1_000_000 };
    for (index, step) in steps.iter().enumerate() {
        run.step(step).map_err(|why| format!("step {index}: {why}"))?;
    }
    run.finish()
}

impl Run {
    fn step(&mut self, step: &Step) -> Checked {
        self.now += step.after_us;
        match step.act {
            Act::ClockBack { us } => self.now = self.now.saturating_sub(us),
            Act::Restore => self.restore()?,
            _ => {}
        }
        let oracle = &self.oracle;
        if let Some(input) = self
            .clients
            .input(&step.act, self.now, |who| oracle.sessions.get(NAMES[who]).map_or(0, |s| s.last))
        {
            self.apply(&input)?;
        }
        if self.look == Look::Everything {
            self.compare()?;
        }
        self.executed_once()
    }

    fn apply(&mut self, input: &Input) -> Checked {
        let output = self.machine.apply(self.now, input);
        let message_bytes = match output.response().map(|response| &response.reply) {
            Some(Reply::Aborted(error)) => error.message().len(),
            _ => 0,
        };
        let expected = self.oracle.apply(self.now, input, message_bytes);
        same("the answer", &shown(&output), &expected)?;
        self.meet(&kind(&expected.answer), 1);
        let twin = self.twin.apply(self.now, input);
        if self.look == Look::Everything {
            same("the twin's answer", &twin, &output)?;
        }
        if let Ok(Answer::Opened { info, .. }) = &output.answer {
            let who = NAMES.iter().position(|name| *name == info.session.as_str());
            self.clients.opened(who.unwrap(), info.next_request);
        }
        Ok(())
    }

    fn meet(&self, kind: &str, times: u64) {
        *self.met.borrow_mut().entry(kind.to_owned()).or_default() += times;
    }

    fn restore(&mut self) -> Checked {
        self.meet("restored", 1);
        let mut bytes = Vec::new();
        let written = self.machine.snapshot_to(&mut bytes).map_err(|error| error.to_string())?;
        same("the bytes", &written.bytes, &(bytes.len() as u64))?;
        let sample = Sample { notes: self.machine.machine().notes.clone() };
        let restored = Machine::restore(sample, &bytes[..]).map_err(|error| error.to_string())?;
        if self.look == Look::Everything {
            same("the hash", &restored.hash(), &written.hash)?;
        }
        self.machine = restored;
        Ok(())
    }

    fn compare(&self) -> Checked {
        let machine = &self.machine;
        let oracle = &self.oracle;
        let clock = oracle.clock;
        same("the clock", &machine.clock(), &clock)?;
        for who in NAMES {
            let live = oracle.sessions.get(who).filter(|_| oracle.is_live(clock, who));
            let expected = live.map(|session| info(who, session));
            same("the session", &machine.info(&name(who)), &expected)?;
            let pending = machine.pending(&name(who)).map(|(id, letter)| {
                (id, (letter.sent, Postcard::decode(&letter.payload).unwrap()))
            });
            let expected = live.map(|session| session.pending.clone()).unwrap_or_default();
            same("what waits", &pending.collect::<BTreeMap<_, _>>(), &expected)?;
        }
        self.compare_state()?;
        self.compare_numbers()
    }

    fn compare_state(&self) -> Checked {
        let state = self.machine.state();
        let data = &self.oracle.data;
        let counts: BTreeMap<_, _> = COUNTS.iter(&state).map(Result::unwrap).collect();
        let visits: BTreeMap<_, _> = VISITS.iter(&state).map(Result::unwrap).collect();
        same("the counts", &counts, &data.counts)?;
        same("the visits", &visits, &data.visits)?;
        same("the gone", &state.get(GONE).map_or(0, |bytes| bytes[0]), &data.gone)
    }

    fn compare_numbers(&self) -> Checked {
        let usage = self.machine.usage();
        let sessions = &self.oracle.sessions;
        let sum =
            |of: fn(&crate::oracle::Session) -> usize| sessions.values().map(of).sum::<usize>();
        same("the sessions", &usage.sessions, &sessions.len())?;
        same("the formers", &usage.formers, &self.oracle.formers.len())?;
        same("the responses", &usage.kept, &sum(|session| session.kept.len()))?;
        same("their bytes", &usage.kept_bytes, &sum(|session| session.kept_bytes()))?;
        same("the pending", &usage.pending, &sum(|session| session.pending.len()))?;
        same("the counters", &counters(&self.machine.counters()), &self.oracle.counters)?;
        let waiting = sessions.values().flat_map(|session| session.pending.values());
        let oldest = waiting.map(|(sent, _)| *sent).min().unwrap_or(u64::MAX - 1);
        same("is it older", &self.machine.has_pending(oldest), &false)?;
        same("is one older", &self.machine.has_pending(oldest + 1), &(usage.pending > 0))
    }

    /// Checks that no request was executed twice. Numbers of forgotten sessions may be reused by another
    /// request.
    fn executed_once(&mut self) -> Checked {
        let forgotten = std::mem::take(&mut self.oracle.forgotten);
        self.meet("forgotten", forgotten.len() as u64);
        for machine in [&self.machine, &self.twin] {
            let mut notes = machine.machine().notes.borrow_mut();
            notes.retain(|(name, _), _| !forgotten.contains(name));
            if let Some((request, times)) = notes.iter().find(|(_, times)| **times > 1) {
                return Err(format!("request {request:?} was executed {times} times"));
            }
        }
        Ok(())
    }

    /// Checks the stored state beyond the visible one: resends every request once, on copies.
    fn finish(mut self) -> Checked {
        let counters = self.machine.counters();
        self.meet("resent", counters.retried);
        self.meet("evicted", counters.evicted);
        self.meet("hooks_failed", counters.hooks_failed);
        if self.look == Look::Everything {
            let machine = self.machine.hash();
            let twin = self.twin.hash();
            same("the hash of the one that was restored", &machine, &twin)?;
        }
        for (who, session) in self.oracle.sessions.clone() {
            let next = session.next_request();
            for id in next.saturating_sub(60).max(1)..next + 2 {
                let epoch = [0, session.opened, session.opened + 1][id as usize % 3];
                let request = SessionRequest::new(name(&who), id, 0).in_epoch(epoch);
                let machine = &mut self.machine;
                let oracle = &mut self.oracle;
                let input = Input::Request { request, command: vec![0xff] };
                let output = machine.apply(self.now, &input);
                let bytes = match output.response().map(|response| &response.reply) {
                    Some(Reply::Aborted(error)) => error.message().len(),
                    _ => 0,
                };
                let expected = oracle.apply(self.now, &input, bytes);
                same("a repeat at the end", &shown(&output), &expected)?;
            }
        }
        Ok(())
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, expected: &T) -> Checked {
    if got == expected {
        Ok(())
    } else {
        Err(format!("{what}: got {got:?}, expected {expected:?}"))
    }
}

fn info(name: &str, session: &crate::oracle::Session) -> SessionInfo {
    SessionInfo {
        session: self::name(name),
        opened: session.opened,
        epoch: session.opened,
        lease_ms: session.lease_ms,
        expires: session.expires,
        capabilities: session.capabilities.clone(),
        next_request: session.next_request(),
        mark: session.mark,
        kept: session.kept.len() as u64,
        kept_bytes: session.kept_bytes() as u64,
        last_sent: session.last,
        pending: session.pending.len() as u64,
    }
}

/// The nonzero counters by name.
fn counters(counters: &Counters) -> BTreeMap<&'static str, u64> {
    let all = [
        ("opened", counters.opened),
        ("expired", counters.expired),
        ("closed", counters.closed),
        ("executed", counters.executed),
        ("aborted", counters.aborted),
        ("repeated", counters.repeated),
        ("too_late", counters.too_late),
        ("strangers", counters.strangers),
        ("evicted", counters.evicted),
        ("internal", counters.internal),
        ("sent", counters.sent),
        ("dropped", counters.dropped),
        ("acknowledged", counters.acknowledged),
        ("retried", counters.retried),
        ("hooks_failed", counters.hooks_failed),
    ];
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// The kind of an answer, without its numbers.
fn kind(answer: &str) -> String {
    let (first, rest) = answer.split_once(' ').unwrap_or((answer, ""));
    let first = first.split('(').next().unwrap_or(first);
    let rest =
        rest.rsplit_once("error=").map_or(rest.to_owned(), |(_, flags)| format!("error={flags}"));
    let rest = rest.split([',', '(']).next().unwrap_or_default();
    let words =
        rest.split(' ').filter(|word| !word.starts_with("next=") && !word.starts_with("more="));
    [first].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// Converts an output to the model's form.
fn shown(output: &Output) -> Expected {
    let answer = match &output.answer {
        Err(error) => format!("refused {}", error.code().name()),
        Ok(Answer::Opened { info, created }) => {
            format!("opened created={created} next={}", info.next_request)
        }
        Ok(Answer::Response(Response { reply, is_repeat })) => {
            let text = match reply {
                Reply::Response { is_error, .. } => {
                    let said = reply.decode::<crate::sample::Said, Postcard>().unwrap();
                    format!("{said:?} error={is_error}")
                }
                Reply::Aborted(error) => format!("aborted {}", error.code().name()),
            };
            format!("{text} repeat={is_repeat}")
        }
        Ok(Answer::Acknowledged(count)) => format!("acknowledged {count}"),
        Ok(Answer::Sent(id)) => format!("sent {id:?}"),
        Ok(Answer::Ended(was_live)) => format!("ended {was_live}"),
        Ok(Answer::Expired { count, more }) => format!("expired {count} more={more}"),
        Ok(Answer::Retried { more }) => format!("retried more={more}"),
        Ok(Answer::Done) => "done".to_owned(),
        Ok(other) => format!("{other:?}"),
    };
    let sent = |request: &ServerRequest| {
        let says = Postcard::decode(&request.payload).unwrap();
        (request.session.to_string(), request.id, says)
    };
    Expected { answer, requests: output.requests.iter().map(sent).collect() }
}

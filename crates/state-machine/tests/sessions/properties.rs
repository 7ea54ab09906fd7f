//! The invariants of the contract as properties of random logs.

use crate::explorer::{log, sent_anew};
use crate::program::{program, small_limits};
use crate::sample::*;
use mainstay_state_machine::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn opened(limits: Limits) -> Machine {
    let mut machine = machine(limits);
    machine.apply(0, &open("a", 60_000)).answer.unwrap();
    machine
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// 1. Idempotency: in any order and with any number of retries, each request is executed once and always
    /// gets the same answer.
    #[test]
    fn repeats_are_answered_alike(ids in vec(1..30_u64, 1..200)) {
        let mut machine = opened(Limits::default());
        let mut answers: BTreeMap<u64, Said> = BTreeMap::new();
        for id in ids {
            let output = machine.apply(1, &request("a", id, 1, What::Add { key: 1, n: 1 }));
            let said = said(&output).unwrap();
            prop_assert_eq!(answers.entry(id).or_insert_with(|| said.clone()), &said);
        }
        let count = COUNTS.get(&machine.state(), &1).unwrap();
        prop_assert_eq!(count, Some(answers.len() as i64));
    }

    /// 2. Cumulative acknowledgement: acknowledging n removes all requests up to n, and no others.
    #[test]
    fn an_acknowledgement_takes_all_up_to_it(sent in 0..20_u64, upto in 0..30_u64) {
        let mut machine = opened(Limits::default());
        for n in 0..sent {
            machine.apply(n, &Machine::send(name("a"), &1).unwrap());
        }
        let answer = machine.apply(99, &Input::Acknowledge { session: name("a"), upto }).answer;
        prop_assert_eq!(answer, Ok(Answer::Acknowledged(upto.min(sent))));
        let left: Vec<u64> = machine.pending(&name("a")).map(|(id, _)| id).collect();
        prop_assert_eq!(left, (upto.min(sent) + 1..=sent).collect::<Vec<_>>());
    }

    /// 3. Monotonic ids: numbers only increase, and the last is at least that of any pending request. A
    /// forgotten name restarts its numbers, which these limits rule out.
    #[test]
    fn numbers_only_rise((_, steps) in program(80)) {
        let mut machine = machine(Limits::default());
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        for (now, input) in log(Limits::default(), &steps) {
            if matches!(input, Input::SetLimits(_)) || now > 10_000_000_000 {
                continue;
            }
            for sent in sent_anew(&input, &machine.apply(now, &input)) {
                let before = last.insert(sent.session.to_string(), sent.id).unwrap_or(0);
                prop_assert!(before < sent.id, "{before} before {}", sent.id);
            }
            for who in NAMES {
                let Some(info) = machine.info(&name(who)) else { continue };
                prop_assert!(machine.pending(&name(who)).all(|(id, _)| id <= info.last_sent));
            }
        }
    }

    /// 4. Snapshot fidelity: wherever a log is cut, restoring a snapshot and applying the rest gives the same
    /// state.
    #[test]
    fn a_snapshot_stands_for_the_log_before_it((limits, steps) in program(60), cut in 0..60_usize) {
        let log = log(limits, &steps);
        let (before, after) = log.split_at(cut.min(log.len()));
        let mut whole = machine(limits);
        before.iter().for_each(|(now, input)| drop(whole.apply(*now, input)));
        let mut bytes = Vec::new();
        let written = whole.snapshot_to(&mut bytes).unwrap();
        let mut restored = Machine::restore(Sample::default(), &bytes[..]).unwrap();
        prop_assert_eq!(restored.hash(), written.hash);
        for (now, input) in after {
            prop_assert_eq!(restored.apply(*now, input), whole.apply(*now, input));
        }
        prop_assert_eq!(restored.hash(), whole.hash());
    }

    /// 5. Unique request ids: no two requests to one client have the same number.
    #[test]
    fn no_two_requests_have_one_number((_, steps) in program(80)) {
        let mut machine = machine(Limits::default());
        let mut given: BTreeSet<(String, u64)> = BTreeSet::new();
        for (now, input) in log(Limits::default(), &steps) {
            if matches!(input, Input::SetLimits(_)) || now > 10_000_000_000 {
                continue;
            }
            for sent in sent_anew(&input, &machine.apply(now, &input)) {
                prop_assert!(given.insert((sent.session.to_string(), sent.id)));
            }
        }
    }

    /// 6. Isolation: the keys that a machine writes and removes never affect sessions.
    #[test]
    fn no_key_reaches_a_session(keys in vec((vec(any::<u8>(), 0..12), any::<bool>()), 1..40)) {
        let mut scribbled = SessionMachine::<Scribbler>::new(Scribbler);
        let mut blank = SessionMachine::<Scribbler>::new(Scribbler);
        for machine in [&mut scribbled, &mut blank] {
            machine.apply(0, &open("a", 60_000)).answer.unwrap();
        }
        for (id, (key, is_put)) in (1..).zip(keys) {
            let request = |key: Vec<u8>| {
                let request = mainstay_model::SessionRequest::new(name("a"), id, 1);
                SessionMachine::<Scribbler>::request(request, &(key, is_put)).unwrap()
            };
            scribbled.apply(id, &request(key));
            blank.apply(id, &request(b"_".to_vec()));
            prop_assert_eq!(scribbled.info(&name("a")), blank.info(&name("a")));
            prop_assert_eq!(scribbled.counters(), blank.counters());
        }
    }

    /// Replicas that apply the same log have equal outputs and hashes.
    #[test]
    fn replicas_agree((limits, steps) in program(60)) {
        let log = log(limits, &steps);
        let mut replicas = [machine(limits), machine(limits), machine(limits)];
        for (now, input) in &log {
            let outputs = replicas.each_mut().map(|replica| replica.apply(*now, input));
            prop_assert!(outputs.iter().all(|output| *output == outputs[0]));
        }
        let hashes = replicas.each_ref().map(|replica| replica.hash());
        prop_assert!(hashes.iter().all(|hash| *hash == hashes[0]));
    }

    /// The stored data never exceeds the limits, however small they are.
    #[test]
    fn nothing_is_kept_beyond_the_limits(limits in small_limits(), (_, steps) in program(80)) {
        let mut machine = machine(limits);
        for (now, input) in log(limits, &steps) {
            if matches!(input, Input::SetLimits(_)) {
                continue;
            }
            machine.apply(now, &input);
            let usage = machine.usage();
            prop_assert!(usage.sessions <= limits.sessions && usage.formers <= limits.formers);
            for info in machine.list(None, 9).unwrap().sessions {
                prop_assert!(info.kept <= limits.kept.count as u64);
                prop_assert!(info.kept_bytes <= limits.kept.bytes as u64);
                prop_assert!(info.pending <= limits.mailbox as u64);
            }
        }
    }
}

/// A machine that writes and removes the given keys.
struct Scribbler;

impl UserStateMachine for Scribbler {
    const NAME: &'static str = "scribbler";
    const VERSION: u32 = 1;
    type Command = (Vec<u8>, bool);
    type Response = ();
    type Request = ();

    fn apply(
        &self,
        state: &mut StateView<'_>,
        _: &Context<'_>,
        (key, is_put): (Vec<u8>, bool),
    ) -> mainstay_model::Result<Outcome<(), ()>> {
        if is_put {
            state.put(&key, "scribble")?;
        } else {
            let keys: Vec<Vec<u8>> = state.scan(&key).map(|(key, _)| key.to_vec()).collect();
            assert!(keys.iter().all(|key| state.remove(key)));
        }
        Ok(Outcome::new(()))
    }
}

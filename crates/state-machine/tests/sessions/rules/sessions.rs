//! Lifetime of sessions, their end, and their visibility to user code.

use super::*;

#[test]
fn a_session_lives_until_the_microsecond_in_which_its_lease_is_over() {
    let mut machine = machine(Limits::default());
    machine.apply(1_000, &Input::open(name("a"))).answer.unwrap();
    let over = 1_000 + SESSION_LEASE_MS * 1_000;
    let mut alive = machine.clone();
    assert!(said(&alive.apply(over - 1, &request("a", 1, 1, ADD))).is_ok());
    assert_eq!(refusal(&machine.apply(over, &request("a", 1, 1, ADD))), Code::SessionExpired);
    assert_eq!(count(&machine), 0, "it was not executed");
    let alive_again = Input::KeepAlive { session: name("a"), lowest_pending: 0 };
    assert_eq!(refusal(&machine.apply(over, &alive_again)), Code::SessionExpired);
    let done = Input::Acknowledge { session: name("a"), upto: 1 };
    assert_eq!(refusal(&machine.apply(over, &done)), Code::SessionExpired);
    assert_eq!(refusal(&machine.apply(over, &request("nobody", 1, 1, ADD))), Code::SessionExpired);
    assert_eq!(machine.counters().strangers, 4);
    assert!(machine.info(&name("a")).is_none() && machine.has_due(over) && !alive.has_due(over));
}

#[test]
fn every_word_of_a_client_begins_its_lease_anew() {
    let words = [
        open("a", 1),
        Input::KeepAlive { session: name("a"), lowest_pending: 0 },
        Input::Acknowledge { session: name("a"), upto: 0 },
        request("a", 5, 5, ADD),
        request("a", 5, 5, ADD),
        request("a", 4, 4, ADD),
    ];
    let mut machine = machine(Limits::default());
    machine.apply(0, &open("a", 10));
    for (place, word) in (1..).zip(words) {
        let now = place * 9_000;
        machine.apply(now, &word);
        assert_eq!(machine.info(&name("a")).unwrap().expires, now + 10_000, "{word:?}");
    }
    machine.apply(60_000, &Machine::send(name("a"), &1).unwrap());
    assert_eq!(machine.info(&name("a")).unwrap().expires, 64_000, "that was no word of its own");
}

#[test]
fn opening_what_exists_is_the_same_session() {
    let mut machine = opened(Limits::default());
    machine.apply(1, &request("a", 1, 1, ADD));
    let output = machine.apply(2, &open("a", 5));
    let Ok(Answer::Opened { info, created: false }) = output.answer else { panic!("{output:?}") };
    assert_eq!((info.opened, info.lease_ms, info.expires), (0, 60_000, 60_000_002));
    assert_eq!(info.next_request, 2);
    assert_eq!(said(&machine.apply(3, &request("a", 1, 1, ADD))).unwrap(), Said::Number(1));
}

#[test]
fn expiry_runs_the_hook_and_takes_what_is_the_sessions_own_and_nothing_else() {
    let mut machine = machine(Limits::default());
    for who in ["a", "ab", "b"] {
        machine.apply(0, &open(who, if who == "a" { 1 } else { 50 }));
        machine.apply(0, &request(who, 1, 1, What::Tell { to: 0, times: 1 }));
        machine.apply(0, &Machine::send(name(who), &7).unwrap());
    }
    let before = ["ab", "b"].map(|who| machine.info(&name(who)).unwrap());
    let output = machine.apply(1_000, &Input::ExpireDue { limit: 10 });
    assert_eq!(output.answer, Ok(Answer::Expired { count: 1, more: false }));
    assert_eq!(output.requests.len(), 1, "the watcher is told; who has gone cannot be");
    assert_eq!(output.requests[0].session, name("b"));
    let mut after = ["ab", "b"].map(|who| machine.info(&name(who)).unwrap());
    after[1].pending = before[1].pending;
    after[1].last_sent = before[1].last_sent;
    assert_eq!(after, before);
    assert_eq!((machine.usage().kept, machine.usage().pending), (2, 3));
    assert_eq!((machine.counters().dropped, machine.counters().expired), (1, 1));
    assert_eq!(machine.state().get(GONE), Some(&[1][..]));
}

#[test]
fn a_hook_that_fails_lets_no_session_begin_and_every_session_end() {
    let mut machine = opened(Limits::default());
    let about = |name: &str| vec![(name.to_owned(), "panic".to_owned())];
    let begin = Input::Open { session: name("b"), lease_ms: None, capabilities: about("begin") };
    assert_eq!(refusal(&machine.apply(1, &begin)), Code::MachineFailed);
    assert!(machine.info(&name("b")).is_none() && VISITS.iter(&machine.state()).count() == 1);
    let end = Input::Open { session: name("b"), lease_ms: None, capabilities: about("end") };
    machine.apply(1, &end).answer.unwrap();
    let closed = machine.apply(2, &Input::Close { session: name("b") });
    assert_eq!((closed.answer, closed.requests.len()), (Ok(Answer::Ended(true)), 0));
    assert!(machine.info(&name("b")).is_none() && machine.state().get(GONE).is_none());
    assert_eq!((machine.counters().hooks_failed, machine.counters().closed), (2, 1));
}

#[test]
fn a_name_that_is_used_again_goes_on_with_its_numbers_for_a_day() {
    let mut machine = opened(Limits::default());
    machine.apply(1, &request("a", 7, 1, ADD));
    machine.apply(1, &Machine::send(name("a"), &1).unwrap());
    machine.apply(2, &Input::Expire { session: name("a") });
    let mut later = machine.clone();
    let Ok(Answer::Opened { info, created: true }) = machine.apply(3, &open("a", 9)).answer else {
        panic!("it is a new one")
    };
    assert_eq!((info.next_request, info.mark, info.kept, info.pending), (1_008, 1_008, 0, 0));
    // One request that was executed, and one that may have been in flight.
    for id in [7, 1_007] {
        assert_eq!(refusal(&machine.apply(3, &request("a", id, 1, ADD))), Code::ResponseEvicted);
    }
    let sent = machine.apply(3, &Machine::send(name("a"), &1).unwrap());
    assert_eq!(sent.answer, Ok(Answer::Sent(Some(2))));
    assert_eq!(count(&machine), 1);

    let day_us = 24 * 3_600_000_000;
    let mut just_before = later.clone();
    just_before.apply(2 + day_us - 1, &open("a", 9));
    assert_eq!(just_before.info(&name("a")).unwrap().next_request, 1_008);
    later.apply(2 + day_us, &open("a", 9));
    assert_eq!(later.info(&name("a")).unwrap().next_request, 1);
}

#[test]
fn nothing_is_executed_twice_through_eviction_expiry_reopening_and_restoring() {
    let kept = KeptLimits { count: 2, bytes: 100 };
    let mut machine = opened(Limits { kept, ..Limits::default() });
    let log: Vec<Input> = (1..=6).map(|id| request("a", id, 1, ADD)).collect();
    let mut now = 0;
    for round in 0..8 {
        log.iter().for_each(|input| drop(machine.apply(now, input)));
        match round % 4 {
            0 => drop(machine.apply(now, &Input::Expire { session: name("a") })),
            1 => drop(machine.apply(now, &open("a", 5))),
            2 => now += 10_000,
            _ => {
                let mut bytes = Vec::new();
                machine.snapshot_to(&mut bytes).unwrap();
                machine.restore_from(&bytes[..]).unwrap();
                machine.apply(now, &open("a", 5)).answer.unwrap();
            }
        }
    }
    assert_eq!(count(&machine), 6);
    assert!(machine.machine().notes.borrow().values().all(|times| *times == 1));
    let fresh = machine.info(&name("a")).unwrap().next_request;
    assert_eq!(said(&machine.apply(now, &request("a", fresh, 1, ADD))).unwrap(), Said::Number(7));
}

#[test]
fn functions_see_who_is_alive_and_the_time_and_nothing_of_the_others() {
    let mut machine = machine(Limits::default());
    machine.apply(0, &open("ab", 1));
    machine.apply(0, &open("b", 50));
    machine.apply(0, &open("a", 50));
    let who = |machine: &mut Machine, now, id| {
        said(&machine.apply(now, &request("a", id, 1, What::Who))).unwrap()
    };
    let names = |names: &[&str]| Said::Names(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(who(&mut machine, 999, 1), names(&["a", "ab", "b"]));
    assert_eq!(who(&mut machine, 1_000, 2), names(&["a", "b"]), "not ended, but over");
    let tell = machine.apply(1_000, &request("a", 3, 1, What::Tell { to: 1, times: 1 }));
    assert_eq!((said(&tell).unwrap(), tell.requests.len()), (Said::Number(0), 0));
}

#[test]
fn after_an_outage_all_leases_begin_anew() {
    let mut machine = opened(Limits::default());
    let late = 60_000_000 + 1;
    machine.apply(late, &Input::RenewLeases);
    assert!(said(&machine.apply(late, &request("a", 1, 1, ADD))).is_ok());
    assert_eq!(machine.info(&name("a")).unwrap().expires, late + 60_000_000);
}

#[test]
fn renewing_leases_brings_nobody_back() {
    let mut machine = machine(Limits::default());
    machine.apply(0, &open("a", 1));
    assert_eq!(refusal(&machine.apply(2_000, &request("a", 1, 1, ADD))), Code::SessionExpired);
    machine.apply(2_001, &Input::RenewLeases);
    let late = machine.apply(2_002, &request("a", 1, 1, ADD));
    assert_eq!(
        refusal(&late),
        Code::SessionExpired,
        "its client was told that it was not executed"
    );
}

#[test]
fn time_does_not_go_back() {
    let mut machine = opened(Limits::default());
    machine.apply(500, &Machine::send(name("a"), &1).unwrap());
    machine.apply(100, &Machine::send(name("a"), &2).unwrap());
    assert_eq!(machine.clock(), 500);
    assert!(!machine.has_pending(500), "the second counts as sent when the first was");
}

#[test]
fn smaller_limits_hold_at_once_and_there_are_only_so_many_sessions() {
    let mut machine = opened(Limits::default());
    (1..=4).for_each(|id| drop(machine.apply(1, &request("a", id, 1, ADD))));
    let kept = KeptLimits { count: 1, bytes: 10 };
    let limits = Limits { kept, sessions: 1, ..Limits::default() };
    machine.apply(2, &Input::SetLimits(limits)).answer.unwrap();
    assert_eq!(machine.info(&name("a")).unwrap().mark, 4);
    assert_eq!(refusal(&machine.apply(2, &open("b", 5))), Code::TooManySessions);
    assert!(machine.apply(2, &open("a", 5)).answer.is_ok());
    assert!(
        SessionMachine::<Sample>::with_limits(Sample::default(), Limits { sessions: 0, ..limits })
            .is_err()
    );
}

#[test]
fn sessions_are_listed_in_pages() -> Result<()> {
    let mut machine = machine(Limits::default());
    for who in ["b", "a", "ab", "abc"] {
        machine.apply(0, &open(who, if who == "ab" { 1 } else { 50 }));
    }
    machine.apply(1_000, &Input::RenewLeases);
    machine.apply(2_000, &Input::ExpireDue { limit: 9 });
    let page = machine.list(None, 2)?;
    let names: Vec<_> = page.sessions.iter().map(|info| info.session.as_str()).collect();
    assert_eq!((names, page.next.as_deref()), (vec!["a", "abc"], Some("abc")));
    let page = machine.list(Some(&name("abc")), 2)?;
    assert_eq!((page.sessions.len(), page.next), (1, None));
    assert!(machine.list(None, 0).is_err());
    Ok(())
}

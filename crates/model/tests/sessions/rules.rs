//! Each rule of the contract by an example.

use crate::sample::*;
use mainstay_model::machine::*;
use mainstay_model::{Code, KeptLimits, MAILBOX_LIMIT, Result, SESSION_LEASE_MS, SessionRequest};

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

/// What an aborted command was answered, and whether that was a repeat.
fn abortion(output: &Output) -> (Code, bool) {
    match output.response().unwrap() {
        Response { reply: Reply::Aborted(error), is_repeat } => (error.code(), *is_repeat),
        other => panic!("it was not aborted: {other:?}"),
    }
}

#[test]
fn a_request_is_executed_once_and_answered_as_often_as_it_comes() {
    let mut machine = opened(Limits::default());
    for is_repeat in [false, true, true] {
        let output = machine.apply(1, &request("a", 1, 1, ADD));
        assert_eq!(said(&output).unwrap(), Said::Number(1));
        assert_eq!(output.response().unwrap().is_repeat, is_repeat);
    }
    let other = machine.apply(1, &request("a", 1, 1, What::Add { key: 1, n: 100 }));
    assert_eq!(said(&other).unwrap(), Said::Number(1), "the number decides, not the command");
    let garbage = SessionRequest::new(name("a"), 1, 1);
    let garbage = machine.apply(1, &Input::Request { request: garbage, command: vec![0xff] });
    assert_eq!(said(&garbage).unwrap(), Said::Number(1), "a repeat is not even decoded");
    assert_eq!(count(&machine), 1);
}

#[test]
fn what_the_client_has_got_goes_and_is_never_executed_again() {
    let mut machine = opened(Limits::default());
    for id in 1..=3 {
        machine.apply(1, &request("a", id, 1, ADD));
    }
    machine.apply(1, &request("a", 4, 3, ADD));
    let info = machine.info(&name("a")).unwrap();
    assert_eq!((info.mark, info.kept, info.next_request), (3, 2, 5));
    assert_eq!(refusal(&machine.apply(1, &request("a", 2, 1, ADD))), Code::ResponseEvicted);
    assert_eq!(said(&machine.apply(1, &request("a", 3, 1, ADD))).unwrap(), Said::Number(3));
    let stale = machine.apply(1, &request("a", 5, 1, ADD));
    assert!(stale.answer.is_ok());
    assert_eq!(machine.info(&name("a")).unwrap().mark, 3, "a stale word lowers nothing");
    assert_eq!(count(&machine), 5);
}

#[test]
fn a_repeat_raises_no_mark() {
    let mut machine = opened(Limits::default());
    machine.apply(1, &request("a", 1, 1, ADD));
    machine.apply(1, &request("a", 5, 1, ADD));
    machine.apply(1, &request("a", 5, 5, ADD));
    assert_eq!(machine.info(&name("a")).unwrap().mark, 1);
}

#[test]
fn numbers_may_come_in_any_order() {
    let mut machine = opened(Limits::default());
    for id in [3, 1, 2, 9, 4] {
        assert!(said(&machine.apply(1, &request("a", id, 1, ADD))).is_ok());
    }
    let ids = [1, 2, 3, 4, 9].map(|id| said(&machine.apply(1, &request("a", id, 1, ADD))).unwrap());
    assert_eq!(ids, [2, 3, 1, 5, 4].map(Said::Number));
}

#[test]
fn over_the_bound_the_oldest_go_and_the_mark_rises() {
    let kept = KeptLimits { count: 2, bytes: 1_000 };
    let mut machine = opened(Limits { kept, ..Limits::default() });
    for id in 1..=3 {
        machine.apply(1, &request("a", id, 1, ADD));
    }
    let info = machine.info(&name("a")).unwrap();
    assert_eq!((info.mark, info.kept), (2, 2));
    assert_eq!(refusal(&machine.apply(1, &request("a", 1, 1, ADD))), Code::ResponseEvicted);
    machine.apply(1, &request("a", 4, 1, What::Big { key: 1, bytes: 990 }));
    let info = machine.info(&name("a")).unwrap();
    assert_eq!((info.mark, info.kept), (3, 2), "bytes count, too");
    assert_eq!(machine.counters().evicted, 2);
}

#[test]
fn a_response_that_is_too_large_aborts_and_the_error_is_kept() {
    let kept = KeptLimits { count: 10, bytes: 100 };
    let mut machine = opened(Limits { kept, ..Limits::default() });
    for is_repeat in [false, true] {
        let output = machine.apply(1, &request("a", 1, 1, What::Big { key: 1, bytes: 200 }));
        assert_eq!(abortion(&output), (Code::ValueTooLarge, is_repeat));
        assert!(output.requests.is_empty(), "it would have told its caller");
    }
    assert_eq!((count(&machine), machine.pending(&name("a")).count()), (0, 0));
    assert_eq!(said(&machine.apply(1, &request("a", 2, 1, ADD))).unwrap(), Said::Number(1));
}

#[test]
fn a_panic_changes_nothing_and_is_kept_and_the_machine_goes_on() {
    let mut machine = opened(Limits::default());
    for is_repeat in [false, true] {
        let output = machine.apply(1, &request("a", 1, 1, What::Panic { key: 1, n: 5 }));
        assert_eq!(abortion(&output), (Code::MachineFailed, is_repeat));
    }
    assert_eq!(machine.machine().notes.borrow().values().sum::<u32>(), 1);
    assert_eq!(said(&machine.apply(1, &request("a", 2, 1, ADD))).unwrap(), Said::Number(1));
}

#[test]
fn errors_are_responses_and_what_they_wrote_stays_unless_it_is_taken_back() {
    let mut machine = opened(Limits::default());
    let output = machine.apply(1, &request("a", 1, 1, What::Refuse { key: 1, n: 5 }));
    assert!(output.response().unwrap().reply.is_error());
    assert_eq!((said(&output).unwrap(), count(&machine)), (Said::Number(5), 5));
    let output = machine.apply(1, &request("a", 2, 1, What::Undo { key: 1, n: 5 }));
    assert_eq!((said(&output).unwrap(), count(&machine)), (Said::Number(10), 5));
    let output = machine.apply(1, &request("a", 3, 1, What::Fail { key: 1, n: 5 }));
    assert_eq!((abortion(&output), count(&machine)), ((Code::Overflow, false), 5));
    let garbage = SessionRequest::new(name("a"), 4, 1);
    let output = machine.apply(1, &Input::Request { request: garbage, command: vec![0xff] });
    assert_eq!(abortion(&output), (Code::InvalidValue, false));
    assert_eq!(abortion(&machine.apply(1, &request("a", 4, 1, ADD))), (Code::InvalidValue, true));
}

#[test]
fn numbers_that_make_no_sense_change_nothing_at_all() {
    let mut machine = opened(Limits::default());
    let before = machine.hash();
    for (id, lowest) in [(0, 0), (u64::MAX, 1), (3, 4)] {
        assert_eq!(
            refusal(&machine.apply(9, &request("a", id, lowest, ADD))),
            Code::InvalidArgument
        );
    }
    let beyond = Input::KeepAlive { session: name("a"), lowest_pending: u64::MAX };
    assert_eq!(refusal(&machine.apply(9, &beyond)), Code::InvalidArgument);
    assert_eq!(refusal(&machine.apply(9, &open("c", 0))), Code::InvalidTtl);
    assert_eq!(refusal(&machine.apply(9, &Input::ExpireDue { limit: 0 })), Code::InvalidLimit);
    let none = Limits { mailbox: 0, ..Limits::default() };
    assert_eq!(refusal(&machine.apply(9, &Input::SetLimits(none))), Code::InvalidOption);
    let large = Input::Send { session: name("a"), payload: vec![0; (1 << 20) + 1] };
    assert_eq!(refusal(&machine.apply(9, &large)), Code::ValueTooLarge);
    assert_eq!(machine.hash(), before);
}

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
    (after[1].pending, after[1].last_sent) = (before[1].pending, before[1].last_sent);
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
    assert_eq!((info.next_request, info.mark, info.kept, info.pending), (8, 8, 0, 0));
    assert_eq!(refusal(&machine.apply(3, &request("a", 7, 1, ADD))), Code::ResponseEvicted);
    let sent = machine.apply(3, &Machine::send(name("a"), &1).unwrap());
    assert_eq!(sent.answer, Ok(Answer::Sent(Some(2))));
    assert_eq!(count(&machine), 1);

    let day_us = 24 * 3_600_000_000;
    let mut just_before = later.clone();
    just_before.apply(2 + day_us - 1, &open("a", 9));
    assert_eq!(just_before.info(&name("a")).unwrap().next_request, 8);
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
fn requests_of_the_server_are_numbered_once_and_acknowledged_in_order() {
    let mut machine = opened(Limits::default());
    let send = Machine::send(name("a"), &5).unwrap();
    let acknowledge = |machine: &mut Machine, upto| {
        machine.apply(2, &Input::Acknowledge { session: name("a"), upto }).answer.unwrap()
    };
    for id in 1..=3 {
        assert_eq!(machine.apply(1, &send).answer, Ok(Answer::Sent(Some(id))));
    }
    assert_eq!(acknowledge(&mut machine, 2), Answer::Acknowledged(2));
    assert_eq!(acknowledge(&mut machine, 1), Answer::Acknowledged(0));
    assert_eq!(machine.pending(&name("a")).map(|(id, _)| id).collect::<Vec<_>>(), [3]);
    assert_eq!(acknowledge(&mut machine, u64::MAX), Answer::Acknowledged(1), "beyond the last");
    assert_eq!(machine.apply(3, &send).answer, Ok(Answer::Sent(Some(4))), "never used again");
    let nobody = machine.apply(3, &Machine::send(name("nobody"), &5).unwrap());
    assert_eq!((nobody.answer, nobody.requests.len()), (Ok(Answer::Sent(None)), 0));
    assert_eq!((machine.counters().dropped, machine.counters().sent), (1, 4));
}

#[test]
fn what_was_sent_strictly_before_is_retried_the_oldest_first_and_counts_as_sent_now() {
    let mut machine = opened(Limits::default());
    machine.apply(1, &open("ab", 60_000));
    for (now, who) in [(10, "ab"), (10, "a"), (20, "a")] {
        machine.apply(now, &Machine::send(name(who), &5).unwrap());
    }
    let ids = |output: Output| -> Vec<(String, u64)> {
        output.requests.iter().map(|sent| (sent.session.to_string(), sent.id)).collect()
    };
    let retry = |sent_before, limit| Input::Retry { sent_before, limit };
    assert!(!machine.has_pending(10) && machine.has_pending(11));
    assert!(ids(machine.apply(30, &retry(10, 9))).is_empty());
    let output = machine.apply(30, &retry(20, 1));
    assert_eq!(output.answer, Ok(Answer::Retried { more: true }));
    assert_eq!(ids(output), [("a".to_owned(), 1)]);
    assert_eq!(ids(machine.apply(31, &retry(20, 9))), [("ab".to_owned(), 1)]);
    assert_eq!(ids(machine.apply(32, &retry(30, 9))), [("a".to_owned(), 2)]);
    assert!(!machine.has_pending(30) && machine.has_pending(31));
    assert_eq!(machine.counters().retried, 3);
}

#[test]
fn a_full_mailbox_aborts_who_sends_and_that_is_kept() {
    let mut machine = opened(Limits { mailbox: 3, ..Limits::default() });
    machine.apply(1, &open("b", 60_000));
    machine.apply(1, &request("a", 1, 1, What::Tell { to: 3, times: 2 }));
    for is_repeat in [false, true] {
        let output = machine.apply(1, &request("a", 2, 1, What::Tell { to: 3, times: 2 }));
        assert_eq!(abortion(&output), (Code::MailboxFull, is_repeat));
        machine.apply(1, &Input::Acknowledge { session: name("b"), upto: 9 });
    }
    assert_eq!(machine.info(&name("b")).unwrap().last_sent, 2, "none of the two was sent");
    let output = machine.apply(1, &request("a", 3, 1, What::Tell { to: 3, times: 3 }));
    assert_eq!(output.requests.iter().map(|sent| sent.id).collect::<Vec<_>>(), [3, 4, 5]);
    let send = Machine::send(name("b"), &1).unwrap();
    assert_eq!(refusal(&machine.apply(1, &send)), Code::MailboxFull);
    assert_eq!(Limits::default().mailbox, MAILBOX_LIMIT);
}

#[test]
fn an_internal_command_is_executed_each_time_and_reaches_clients() {
    let mut machine = opened(Limits::default());
    let tell = Command { id: 0, what: What::Tell { to: 0, times: 1 } };
    let tell = Machine::internal(&tell).unwrap();
    for id in 1..=2 {
        let output = machine.apply(1, &tell);
        assert_eq!((said(&output).unwrap(), output.requests[0].id), (Said::Number(1), id));
    }
    let fails = Machine::internal(&Command { id: 0, what: What::Panic { key: 1, n: 1 } }).unwrap();
    assert_eq!(abortion(&machine.apply(1, &fails)), (Code::MachineFailed, false));
    assert_eq!((machine.counters().internal, machine.counters().executed), (3, 0));
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

//! Requests that are repeated, evicted, or executed and stored; and requests that fail.

use super::*;

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
fn a_request_for_another_session_of_the_name_is_not_executed() {
    let mut machine = opened(Limits::default());
    machine.apply(1, &Input::Close { session: name("a") });
    machine.apply(2, &Input::open(name("a")));
    let epoch = machine.info(&name("a")).unwrap().epoch;
    let first = machine.info(&name("a")).unwrap().next_request;
    let in_epoch = |id, epoch| match request("a", id, 1, ADD) {
        Input::Request { request, command } => {
            Input::Request { request: request.in_epoch(epoch), command }
        }
        other => other,
    };
    assert!(said(&machine.apply(3, &in_epoch(first, epoch))).is_ok());
    assert_eq!(refusal(&machine.apply(3, &in_epoch(first + 1, epoch + 1))), Code::SessionExpired);
    assert_eq!(refusal(&machine.apply(3, &in_epoch(first, epoch + 1))), Code::SessionExpired);
    machine.apply(5, &Input::Close { session: name("a") });
    machine.apply(6, &Input::open(name("a")));
    let next = machine.info(&name("a")).unwrap().next_request;
    assert_eq!(refusal(&machine.apply(7, &in_epoch(next, epoch))), Code::SessionExpired);
    assert!(said(&machine.apply(7, &in_epoch(next, 6))).is_ok());
    assert_eq!((count(&machine), machine.counters().strangers), (2, 3));
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
    for (id, lowest) in [(0, 0), (i64::MAX as u64 + 1, 1), (u64::MAX, 1), (3, 4)] {
        assert_eq!(
            refusal(&machine.apply(9, &request("a", id, lowest, ADD))),
            Code::InvalidArgument
        );
    }
    for lowest_pending in [i64::MAX as u64 + 1, u64::MAX] {
        let beyond = Input::KeepAlive { session: name("a"), lowest_pending };
        assert_eq!(refusal(&machine.apply(9, &beyond)), Code::InvalidArgument);
    }
    assert_eq!(refusal(&machine.apply(9, &open("c", 0))), Code::InvalidTtl);
    assert_eq!(refusal(&machine.apply(9, &Input::ExpireDue { limit: 0 })), Code::InvalidLimit);
    let none = Limits { mailbox: 0, ..Limits::default() };
    assert_eq!(refusal(&machine.apply(9, &Input::SetLimits(none))), Code::InvalidOption);
    let large = Input::Send { session: name("a"), payload: vec![0; (1 << 20) + 1] };
    assert_eq!(refusal(&machine.apply(9, &large)), Code::ValueTooLarge);
    assert_eq!(machine.hash(), before);
}

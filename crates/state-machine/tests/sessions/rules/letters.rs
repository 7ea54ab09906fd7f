//! Requests to clients, and internal commands.

use super::*;

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

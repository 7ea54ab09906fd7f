//! Session lifecycle, windows and deadlines, in simulated time.

use super::world::{World, cut, deaf, kind, never, settings, silent, world};
use super::*;
use mainstay::{Code, ErrorKind, Guard};
use mainstay_sessions::simulation::SimulatedRuntime;
use mainstay_sessions::{Client, ClientFault, Faults};

#[test]
fn errors_are_answers_and_are_not_tried_again() {
    let world = world();
    let transport = world.transport(never());
    let session = world.session(&transport);
    let calls = transport.fault_counts().calls;
    let guarded = add("n", 1).guard(Guard::Counter { name: name("n"), is: Some(7) });
    assert_eq!(kind(world.run(session.execute(guarded.clone()))), ErrorKind::Conflict);
    assert_eq!(transport.fault_counts().calls, calls + 1);
    assert_eq!(kind(world.run(session.execute(guarded))), ErrorKind::Conflict, "a new number");
    assert_eq!(world.db.sessions().info("s").unwrap().unwrap().next_request, 3);
    let id = mainstay::RequestId::new("own").unwrap();
    assert_eq!(kind(world.run(session.execute(add("n", 1).request(id)))), ErrorKind::Invalid);
}

#[test]
fn a_request_without_an_answer_in_time_keeps_its_number_and_can_be_asked_again() {
    let world = world();
    let transport = world.transport(never());
    let session = world.session(&transport);
    transport.set(deaf());
    let error = world.run(session.execute(add("n", 5))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownOutcome, "{error}");
    assert_eq!((session.unanswered(), world.value("n")), (vec![1], 5));
    transport.set(never());
    assert_eq!(sum(&world.run(session.execute(add("m", 1)))), 1, "it has a number of its own");
    let again = world.run(session.ask_again(1));
    assert!(again.as_ref().unwrap().repeated);
    assert_eq!((sum(&again), world.value("n")), (5, 5));
    assert!(session.unanswered().is_empty());
    assert_eq!(kind(world.run(session.ask_again(1))), ErrorKind::Invalid);
}

#[test]
fn what_was_given_up_is_not_executed_any_more() {
    let world = world();
    let transport = world.transport(never());
    let session = world.session(&transport);
    transport.set(Faults { hold: 1.0, ..never() });
    // Only one attempt: a second one could be delivered.
    let held = session.execute_within(add("n", 1), Some(ms(1)));
    assert_eq!(kind(world.run(held)), ErrorKind::UnknownOutcome);
    assert!(session.give_up(1) && !session.give_up(1));
    transport.set(never());
    world.run(session.keep_alive()).unwrap();
    assert!(world.run(transport.deliver_delayed()) > 0, "copies of it come late");
    assert_eq!(world.value("n"), 0);
}

#[test]
fn what_was_certainly_not_executed_is_told_to_be_so() {
    let world = world();
    let transport = world.transport(never());
    let session = world.session(&transport);
    transport.set(Faults { refuse: 1.0, ..never() });
    assert_eq!(kind(world.run(session.execute(add("n", 1)))), ErrorKind::Unavailable);
    assert!(session.unanswered().is_empty());
    transport.set(never());
    world.run(session.execute(add("n", 1))).unwrap();
    assert_eq!(world.value("n"), 1);
}

#[test]
fn a_window_has_room_for_so_many() {
    let world = world();
    let transport = world.transport(never());
    let few = Settings { window: 2, ..settings() };
    let session = world.run(world.client(&transport, few).open_async(named("s"))).unwrap();
    let one = world.run(session.request(add("n", 1)));
    let two = world.run(session.request(add("n", 1)));
    let one = one.unwrap();
    let two = two.unwrap();
    let error = world.run(session.execute(add("n", 1))).unwrap_err();
    assert_eq!((error.code(), world.value("n")), (Code::TimedOut, 0), "it was not sent");
    world.run(two.answer()).unwrap();
    world.run(session.execute(add("n", 1))).unwrap();
    drop(one);
    world.run(session.execute(add("n", 1))).unwrap();
    assert_eq!(world.value("n"), 3);
}

#[test]
fn those_who_wait_for_room_get_it() {
    let world = world();
    let transport = world.transport(Faults { delay: 1.0, ..Faults::many(2) });
    let one = Settings { window: 1, deadline: None, ..settings() };
    let session = world.run(world.client(&transport, one).open_async(named("s"))).unwrap();
    for _ in 0..20 {
        let session = session.clone();
        world.simulation.spawn(async move { drop(session.execute(add("n", 1)).await.unwrap()) });
    }
    while session.stats().answered < 20 {
        world.sleep(ms(10));
    }
    assert_eq!(world.value("n"), 20);
}

#[test]
fn a_full_window_gives_up_what_nobody_asks_for() {
    let world = world();
    let transport = world.transport(never());
    let few = Settings { window: 2, deadline: Some(ms(50)), ..settings() };
    let session = world.run(world.client(&transport, few).open_async(named("s"))).unwrap();
    transport.set(cut());
    for _ in 0..5 {
        assert_eq!(kind(world.run(session.execute(add("n", 1)))), ErrorKind::UnknownOutcome);
    }
    assert_eq!(session.unanswered(), [4, 5]);
}

#[test]
fn an_idle_session_is_kept_alive_and_a_busy_one_needs_no_words() {
    let world = world();
    let transport = world.transport(never());
    let session = world.session(&transport);
    for _ in 0..3 {
        world.run(session.execute(add("n", 1))).unwrap();
    }
    assert_eq!(world.db.sessions().info("s").unwrap().unwrap().kept, 1, "the last one's");
    world.sleep(secs(610));
    world.db.sweep().unwrap();
    assert_eq!(session.stats().keep_alives, 30, "a third of the lease each");
    let info = world.db.sessions().info("s").unwrap().unwrap();
    assert_eq!((info.kept, info.mark), (0, 4), "what the client has got is gone");
    for _ in 0..100 {
        world.run(session.execute(add("n", 1))).unwrap();
        world.sleep(secs(19));
    }
    assert_eq!(session.stats().keep_alives, 30);
}

#[test]
fn keep_alives_get_through_a_bad_way() {
    let world = world();
    let transport = world.transport(Faults { silence: 0.1, ..Faults::many(9) });
    let patient = Settings { attempt: ms(500), deadline: None, ..settings() };
    let session = world.run(world.client(&transport, patient).open_async(named("s"))).unwrap();
    for _ in 0..600 {
        world.sleep(secs(1));
        world.db.sweep().unwrap();
    }
    assert!(session.is_live() && world.db.sessions().info("s").unwrap().is_some());
}

#[test]
fn a_session_that_nobody_has_any_more_expires() {
    let world = world();
    let session = world.session(&world.transport(never()));
    drop(session);
    world.sleep(secs(61));
    assert_eq!(world.db.sessions().info("s").unwrap(), None);
}

#[test]
fn who_was_not_executed_before_a_session_went_is_told_so_and_it_can_be_opened_anew() {
    let world = world();
    let transport = world.transport(never());
    let session = world.run(world.client(&transport, silent()).open_async(named("s"))).unwrap();
    let first = world.run(session.execute(add("n", 1)));
    world.sleep(secs(61));
    assert!(session.is_live(), "nobody has said otherwise");
    assert_eq!(kind(world.run(session.execute(add("n", 1)))), ErrorKind::SessionExpired);
    let calls = transport.fault_counts().calls;
    assert_eq!(kind(world.run(session.execute(add("n", 1)))), ErrorKind::SessionExpired);
    assert_eq!(
        (transport.fault_counts().calls, session.is_live()),
        (calls, false),
        "it is known by now"
    );
    world.run(session.reopen()).unwrap();
    world.run(session.reopen()).unwrap();
    assert_eq!((sum(&first), sum(&world.run(session.execute(add("n", 1))))), (1, 2));
    assert_eq!(session.stats().openings, 2);
}

/// One request has an unknown outcome, one was refused; then the session ends.
fn told_of_the_end(world: &World, injected_fault: Option<ClientFault>) -> (ErrorKind, ErrorKind) {
    let transport = world.transport(never());
    let settings = Settings { deadline: None, injected_fault, ..silent() };
    let session = world.run(world.client(&transport, settings).open_async(named("s"))).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    for (faults, cell) in [(deaf(), "doubt"), (Faults { refuse: 1.0, ..never() }, "refused")] {
        transport.set(faults);
        let session = session.clone();
        let sender = sender.clone();
        world.simulation.spawn(async move {
            sender.send((cell, kind(session.execute(add(cell, 1)).await))).unwrap();
        });
        world.sleep(ms(1));
    }
    transport.set(cut());
    world.sleep(secs(61));
    transport.set(never());
    // One of them detects the end, and the other one is notified.
    world.sleep(secs(3));
    let kinds: std::collections::BTreeMap<_, _> = receiver.try_iter().collect();
    (kinds["doubt"], kinds["refused"])
}

#[test]
fn all_who_wait_are_told_what_is_known_when_their_session_goes() {
    let world = world();
    let kinds = told_of_the_end(&world, None);
    // Meanwhile, attempts of both requests were lost.
    assert_eq!(kinds, (ErrorKind::UnknownOutcome, ErrorKind::UnknownOutcome));
    assert_eq!((world.value("doubt"), world.value("refused")), (1, 0));
    let world = self::world();
    let kinds = told_of_the_end(&world, Some(ClientFault::AlwaysExpired));
    assert_eq!((kinds.0, world.value("doubt")), (ErrorKind::SessionExpired, 1), "the bug is seen");
}

#[test]
fn a_response_that_went_for_want_of_room_is_told_to_be_gone() {
    let world = world();
    let transport = world.transport(never());
    let session = world.session(&transport);
    transport.set(deaf());
    assert_eq!(kind(world.run(session.execute(add("n", 1)))), ErrorKind::UnknownOutcome);
    transport.set(never());
    world.db.cells().set("large", "x".repeat(300_000)).unwrap();
    for _ in 0..5 {
        let read = Transaction::new().step(CellCommand::Get { name: name("large") });
        world.run(session.execute(read)).unwrap();
    }
    assert_eq!(kind(world.run(session.ask_again(1))), ErrorKind::ResponseEvicted);
    assert!(session.is_live() && session.unanswered().is_empty());
    assert_eq!(world.value("n"), 1);
}

#[test]
fn closing_ends_it_for_everybody() {
    let world = world();
    let transport = world.transport(never());
    let session = world.session(&transport);
    let other = session.clone();
    let (sender, receiver) = std::sync::mpsc::channel();
    transport.set(deaf());
    world.simulation.spawn(async move {
        sender.send(kind(other.execute_within(add("n", 1), None).await)).unwrap();
    });
    world.sleep(ms(1));
    transport.set(never());
    assert!(world.run(session.close()).unwrap());
    world.sleep(secs(1));
    assert_eq!(receiver.try_recv().unwrap(), ErrorKind::UnknownOutcome);
    assert_eq!(kind(world.run(session.execute(add("n", 1)))), ErrorKind::Closed);
    assert_eq!(kind(world.run(session.reopen())), ErrorKind::Closed);
    assert_eq!(world.db.sessions().info("s").unwrap(), None);
    assert!(!world.run(session.close()).unwrap(), "twice does no harm");
}

#[test]
fn many_who_open_anew_open_it_once() {
    let world = world();
    let transport = world.transport(never());
    let session = world.run(world.client(&transport, silent()).open_async(named("s"))).unwrap();
    world.sleep(secs(61));
    assert_eq!(kind(world.run(session.execute(add("n", 1)))), ErrorKind::SessionExpired);
    transport.set(Faults { delay: 1.0, ..Faults::many(1) });
    for _ in 0..10 {
        let session = session.clone();
        world.simulation.spawn(async move {
            session.reopen().await.unwrap();
            session.execute_within(add("n", 1), None).await.unwrap();
        });
    }
    while session.stats().answered < 10 {
        world.sleep(ms(10));
    }
    assert_eq!((session.stats().openings, world.value("n")), (2, 10));
}

#[test]
fn bad_settings_are_refused() {
    let world = world();
    for settings in [
        Settings { window: 0, ..settings() },
        Settings { window: mainstay_sessions::WINDOW_LIMIT + 1, ..settings() },
        Settings { attempt: Duration::ZERO, ..settings() },
        Settings { longest_pause: Duration::ZERO, ..settings() },
    ] {
        let runtime = Arc::new(SimulatedRuntime(world.simulation.clone()));
        let client = Client::on(world.transport(never()), settings, runtime);
        assert_eq!(client.map(drop).unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[test]
fn who_waits_for_room_is_told_when_somebody_lets_go() {
    let world = world();
    let transport = world.transport(never());
    let one = Settings { window: 1, ..silent() };
    let session = world.run(world.client(&transport, one).open_async(named("s"))).unwrap();
    transport.set(cut());
    let (sender, receiver) = std::sync::mpsc::channel();
    for (cell, time) in [("n", ms(50)), ("m", secs(50))] {
        let session = session.clone();
        let sender = sender.clone();
        world.simulation.spawn(async move {
            let answer = session.execute_within(add(cell, 1), Some(time)).await;
            sender.send((cell, answer.is_ok())).unwrap();
        });
        world.sleep(ms(1));
    }
    world.sleep(ms(60));
    transport.set(never());
    world.sleep(secs(20));
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [("n", false), ("m", true)]);
}

#[test]
fn what_somebody_asks_for_is_not_given_up_for_another() {
    let world = world();
    let transport = world.transport(never());
    let one = Settings { window: 1, deadline: Some(ms(50)), ..silent() };
    let session = world.run(world.client(&transport, one).open_async(named("s"))).unwrap();
    transport.set(deaf());
    assert_eq!(kind(world.run(session.execute(add("n", 1)))), ErrorKind::UnknownOutcome);
    let (sender, receiver) = std::sync::mpsc::channel();
    let again = session.clone();
    let other = session.clone();
    world.simulation.spawn(async move { sender.send(again.ask_again(1).await).unwrap() });
    world.sleep(ms(1));
    world.simulation.spawn(async move {
        let _ = other.execute_within(add("m", 1), Some(secs(1))).await;
    });
    world.sleep(ms(10));
    transport.set(never());
    world.sleep(secs(2));
    assert!(receiver.try_recv().unwrap().unwrap().repeated);
    assert_eq!((world.value("n"), world.value("m")), (1, 1));
}

#[test]
fn what_is_given_up_while_it_is_waited_for_may_have_been_executed() {
    let world = world();
    let transport = world.transport(never());
    let session = world.session(&transport);
    transport.set(deaf());
    let (sender, receiver) = std::sync::mpsc::channel();
    let other = session.clone();
    world.simulation.spawn(async move { sender.send(other.execute(add("n", 1)).await).unwrap() });
    world.sleep(ms(1));
    assert!(session.give_up(1));
    world.sleep(secs(6));
    assert_eq!(kind(receiver.try_recv().unwrap()), ErrorKind::UnknownOutcome);
    assert_eq!(world.value("n"), 1);
}

//! Resuming after a client crash with stored notes: the new client gets the answers of its own requests or
//! `UnknownOutcome`, and never an answer of another client.

use super::world::{World, cut, deaf, kind, never, settings, silent, world};
use super::*;
use mainstay::{ErrorKind, Stamp};
use mainstay_sessions::{AsyncSession, Faults, Faulty, Request};

/// A client's stored note about unanswered requests.
#[derive(Clone)]
struct Note {
    epoch: Stamp,
    left: Vec<(u64, Transaction)>,
}

/// The stored note about additions.
fn note(requests: &[&Request]) -> Note {
    let left = requests.iter().map(|request| (request.number(), add("a", 3))).collect();
    Note { epoch: requests[0].epoch(), left }
}

impl World {
    /// A client stores the number of an addition and crashes: before the request is sent, or before its
    /// answer arrives.
    fn crashed(&self, transport: &Arc<Faulty>, is_sent: bool) -> Note {
        let session = self.run(self.client(transport, silent()).open_async(named("s"))).unwrap();
        let request = self.run(session.request(add("a", 3))).unwrap();
        let note = note(&[&request]);
        if is_sent {
            self.send_unheard(transport, &request);
        }
        // A crash does not give up the request, so skip the destructors.
        std::mem::forget((session, request));
        note
    }

    /// Executes a request whose client does not receive the answer.
    fn send_unheard(&self, transport: &Arc<Faulty>, request: &Request) {
        transport.set(deaf());
        let answer = self.run(request.answer_within(Some(secs(5))));
        assert_eq!(kind(answer), ErrorKind::UnknownOutcome);
        transport.set(never());
    }

    fn resume(&self, transport: &Arc<Faulty>, note: Note) -> (AsyncSession, Vec<Request>) {
        let client = self.client(transport, Settings { deadline: None, ..silent() });
        self.run(client.resume_async(named("s"), note.epoch, note.left)).unwrap()
    }
}

#[test]
fn an_answer_of_another_client_is_not_taken_for_that_of_what_was_left() {
    // With the same number; the stored response is kept or evicted.
    for (is_sent, others) in [(false, 1), (false, 3), (true, 0), (true, 1), (true, 3)] {
        let world = world();
        let transport = world.transport(never());
        let note = world.crashed(&transport, is_sent);
        // Another client, or the restarted process without its note.
        let other = world.session(&transport);
        for _ in 0..others {
            world.run(other.execute(add("b", 1))).unwrap();
        }
        let (session, requests) = world.resume(&transport, note);
        assert_eq!(kind(world.run(requests[0].answer())), ErrorKind::UnknownOutcome);
        assert_eq!(sum(&world.run(session.execute(add("c", 5)))), 5);
        let executed = if is_sent { 3 } else { 0 };
        assert_eq!(["a", "b"].map(|cell| world.value(cell)), [executed, others]);
    }
}

#[test]
fn who_crashes_again_before_the_next_epoch_is_written_down_is_told_that_nobody_knows() {
    for is_sent in [false, true] {
        let world = world();
        let transport = world.transport(never());
        let note = world.crashed(&transport, is_sent);
        let (session, requests) = world.resume(&transport, note.clone());
        std::mem::forget((session, requests));
        let (_session, requests) = world.resume(&transport, note);
        assert_eq!(kind(world.run(requests[0].answer())), ErrorKind::UnknownOutcome);
        assert_eq!(world.value("a"), if is_sent { 3 } else { 0 });
    }
}

#[test]
fn who_crashes_again_goes_on_with_the_epoch_that_was_written_down_last() {
    for sent in 0..4 {
        let world = world();
        let transport = world.transport(never());
        let first = world.crashed(&transport, sent & 1 > 0);
        let (session, requests) = world.resume(&transport, first);
        let more = world.run(session.request(add("a", 3))).unwrap();
        assert_eq!((requests[0].epoch(), more.epoch()), (session.epoch(), session.epoch()));
        let second = note(&[&requests[0], &more]);
        if sent & 2 > 0 {
            world.send_unheard(&transport, &requests[0]);
            world.send_unheard(&transport, &more);
        }
        std::mem::forget((session, requests, more));
        let (_session, requests) = world.resume(&transport, second);
        let sums: Vec<i64> = requests.iter().map(|one| sum(&world.run(one.answer()))).collect();
        assert_eq!((sums, world.value("a")), (vec![3, 6], 6), "{sent}");
    }
}

#[test]
fn what_is_written_down_of_what_does_not_go_on_stays_what_it_was() {
    let world = world();
    let transport = world.transport(never());
    let first = world.crashed(&transport, false);
    let other = world.session(&transport);
    world.run(other.execute(add("b", 1))).unwrap();
    let (session, requests) = world.resume(&transport, first.clone());
    assert_eq!(note(&[&requests[0]]).epoch, first.epoch, "and not the session's");
    std::mem::forget((session, requests));
    let (_session, requests) = world.resume(&transport, first);
    assert_eq!(kind(world.run(requests[0].answer())), ErrorKind::UnknownOutcome);
    assert_eq!((world.value("a"), world.value("b")), (0, 1));
}

#[test]
fn words_that_are_lost_and_repeated_while_a_session_is_taken_change_nothing() {
    for seed in 0..100 {
        let is_sent = seed % 2 == 0;
        let is_gone = seed % 4 < 2;
        let world = world();
        let transport = world.transport(never());
        let note = world.crashed(&transport, is_sent);
        if is_gone {
            world.sleep(secs(61));
        }
        transport.set(Faults::many(seed));
        let (_session, requests) = world.resume(&transport, note);
        let answer = world.run(requests[0].answer());
        world.run(transport.deliver_delayed());
        if is_gone {
            assert_eq!(kind(answer), ErrorKind::UnknownOutcome, "seed {seed}")
        } else {
            assert_eq!(sum(&answer), 3, "seed {seed}")
        }
        let executed = if is_sent || !is_gone { 3 } else { 0 };
        assert_eq!(world.value("a"), executed, "seed {seed}");
    }
}

#[test]
fn requests_that_were_written_down_are_answered_after_a_crash_of_the_client() {
    let world = world();
    let transport = world.transport(never());
    let session = world.session(&transport);
    let executed = world.run(session.request(add("a", 3))).unwrap();
    let lost = world.run(session.request(add("b", 4))).unwrap();
    transport.set(deaf());
    assert_eq!(kind(world.run(executed.answer())), ErrorKind::UnknownOutcome);
    transport.set(cut());
    assert_eq!(kind(world.run(lost.answer())), ErrorKind::UnknownOutcome);
    let left = vec![(executed.number(), add("a", 3)), (lost.number(), add("b", 4))];
    // A crash does not give up the requests, so skip the destructors.
    let epoch = session.epoch();
    std::mem::forget((executed, lost, session));
    transport.set(Faults::many(4));
    let client = world.client(&transport, Settings { deadline: None, ..settings() });
    let (session, requests) = world.run(client.resume_async(named("s"), epoch, left)).unwrap();
    world.run(session.execute(add("c", 5))).unwrap();
    let sums: Vec<i64> = requests.iter().map(|one| sum(&world.run(one.answer()))).collect();
    world.run(transport.deliver_delayed());
    assert_eq!(sums, [3, 4]);
    assert_eq!(["a", "b", "c"].map(|cell| world.value(cell)), [3, 4, 5]);
}

#[test]
fn what_was_not_written_down_is_not_mistaken_for_what_comes_after() {
    let world = world();
    let transport = world.transport(never());
    let new = world.transport(never());
    let once = Settings { first_pause: secs(9), longest_pause: secs(9), ..settings() };
    let session = world.run(world.client(&transport, once).open_async(named("s"))).unwrap();
    let one = world.run(session.request(add("a", 1))).unwrap();
    transport.set(deaf());
    assert_eq!(kind(world.run(one.answer_within(Some(ms(1))))), ErrorKind::UnknownOutcome);
    transport.set(Faults { hold: 1.0, ..never() });
    let two = session.execute_within(add("b", 1), Some(ms(1)));
    assert_eq!(
        kind(world.run(two)),
        ErrorKind::UnknownOutcome,
        "on its way, and written down nowhere"
    );
    let epoch = session.epoch();
    let left = vec![(one.number(), add("a", 1))];
    std::mem::forget((one, session));
    let client = world.client(&new, settings());
    let (session, requests) = world.run(client.resume_async(named("s"), epoch, left)).unwrap();
    assert!(world.run(transport.deliver_delayed()) > 0);
    assert_eq!(sum(&world.run(session.execute(add("c", 1)))), 1);
    assert!(world.run(requests[0].answer()).unwrap().repeated);
    assert_eq!(["a", "b", "c"].map(|cell| world.value(cell)), [1, 0, 1]);
}

#[test]
fn what_is_left_of_a_session_that_is_gone_is_not_executed_in_the_next_one() {
    // Within a day, numbers continue after the old ones; later, the database has forgotten them.
    for hours in [0, 25] {
        let world = world();
        let transport = world.transport(never());
        let session = world.run(world.client(&transport, silent()).open_async(named("s"))).unwrap();
        let one = world.run(session.request(add("a", 1))).unwrap();
        transport.set(deaf());
        assert_eq!(kind(world.run(one.answer())), ErrorKind::UnknownOutcome);
        let epoch = session.epoch();
        let left = vec![(one.number(), add("a", 1))];
        std::mem::forget((one, session));
        transport.set(never());
        for time in [61, hours * 3_600] {
            world.sleep(secs(time));
            world.db.sweep().unwrap();
        }
        let client = world.client(&transport, silent());
        let (session, requests) = world.run(client.resume_async(named("s"), epoch, left)).unwrap();
        assert_eq!(kind(world.run(requests[0].answer())), ErrorKind::UnknownOutcome);
        world.run(session.execute(add("b", 1))).unwrap();
        assert_eq!((world.value("a"), world.value("b")), (1, 1));
    }
}

#[test]
fn numbers_that_make_no_sense_are_not_gone_on_with() {
    let world = world();
    let transport = world.transport(never());
    let epoch = world.session(&transport).epoch();
    for numbers in [vec![0], vec![u64::MAX], vec![1, 2, 1]] {
        let left = numbers.into_iter().map(|number| (number, add("n", 1))).collect();
        let client = world.client(&transport, settings());
        let resumed = client.resume_async(named("s"), epoch, left);
        assert_eq!(world.run(resumed).map(drop).unwrap_err().kind(), ErrorKind::Invalid);
    }
}

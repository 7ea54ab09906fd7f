//! Several clients of one session name: the last one to open it owns it, and no client gets another one's
//! answer.

use super::world::{World, cut, kind, never, settings, silent, world};
use super::*;
use mainstay::{Error, ErrorKind};
use mainstay_sessions::simulation::SimulatedRuntime;
use mainstay_sessions::{
    AsyncSession, Client, ClientFault, Faults, Faulty, Runtime, ServerMessage,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::mpsc::channel;

/// A delayed request of an earlier client object arrives after the next one has opened the session.
fn answer_of_the_second(injected_fault: Option<ClientFault>) -> (i64, i64, i64) {
    let world = world();
    let old = world.transport(never());
    let new = world.transport(never());
    let client = world.client(&old, Settings { injected_fault, ..settings() });
    let first = world.run(client.open_async(named("s"))).unwrap();
    old.set(Faults { hold: 1.0, ..never() });
    let held = first.execute_within(add("old", 7), Some(ms(1)));
    assert_eq!(kind(world.run(held)), ErrorKind::UnknownOutcome);
    drop(first);
    let second = world.session(&new);
    assert!(world.run(old.deliver_delayed()) > 0);
    let answer = sum(&world.run(second.execute(add("new", 1))));
    (answer, world.value("old"), world.value("new"))
}

#[test]
fn the_next_client_of_a_session_is_not_taken_for_the_one_before() {
    assert_eq!(answer_of_the_second(None), (1, 0, 1));
    assert_eq!(answer_of_the_second(Some(ClientFault::NoEpoch)), (7, 7, 0), "the bug is seen");
}

#[test]
fn the_one_before_hears_that_another_has_its_session() {
    let world = world();
    let old = world.transport(never());
    let new = world.transport(never());
    let first = world.session(&old);
    world.run(first.execute(add("n", 1))).unwrap();
    let second = world.session(&new);
    assert_eq!(sum(&world.run(second.execute(add("n", 1)))), 2);
    assert_eq!(kind(world.run(first.execute(add("n", 1)))), ErrorKind::SessionExpired);
    assert!(!first.is_live() && second.is_live());
    assert_eq!(world.value("n"), 2);
}

#[test]
fn the_one_before_is_refused_however_far_its_numbers_are() {
    for expires in [false, true] {
        let world = world();
        let old = world.transport(never());
        let new = world.transport(never());
        let hasty = Settings { window: 1, deadline: Some(ms(1)), ..settings() };
        let first = world.run(world.client(&old, hasty).open_async(named("s"))).unwrap();
        old.set(cut());
        for _ in 0..mainstay::REQUESTS_AHEAD_LIMIT {
            assert_eq!(kind(world.run(first.execute(add("n", 1)))), ErrorKind::UnknownOutcome);
        }
        if expires {
            world.sleep(secs(61));
            world.db.sweep().unwrap();
        }
        let second = world.session(&new);
        assert_eq!(sum(&world.run(second.execute(add("m", 1)))), 1);
        old.set(never());
        let answer = first.execute_within(add("n", 7), Some(secs(5)));
        assert_eq!(kind(world.run(answer)), ErrorKind::SessionExpired);
        assert_eq!((world.value("n"), world.value("m")), (0, 1));
    }
}

#[test]
fn of_two_that_open_at_once_one_has_it() {
    for seed in 0..100 {
        let world = world();
        drop(world.session(&world.transport(never())));
        let slow = |seed| world.transport(Faults { delay: 1.0, seed, ..never() });
        let clients = [seed, seed + 1_000].map(|seed| world.client(&slow(seed), settings()));
        let (sender, receiver) = channel();
        for client in clients {
            let sender = sender.clone();
            world.simulation.spawn(async move {
                sender.send(client.open_async(named("s")).await.unwrap()).unwrap();
            });
        }
        world.sleep(secs(1));
        let sessions: Vec<AsyncSession> = receiver.try_iter().collect();
        let answers = ["a", "b"].map(|cell| {
            let session = &sessions[usize::from(cell == "b")];
            (world.run(session.execute(add(cell, 1))).is_ok(), world.value(cell))
        });
        assert!(
            matches!(answers, [(true, 1), (false, 0)] | [(false, 0), (true, 1)]),
            "{answers:?}"
        );
    }
}

#[test]
fn a_late_copy_of_an_opening_takes_the_session_from_nobody() {
    let world = world();
    let old = world.transport(never());
    let new = world.transport(never());
    let first = world.session(&old);
    world.run(first.execute(add("n", 1))).unwrap();
    let again = world.run(world.client(&old, silent()).open_async(named("s"))).unwrap();
    // Copies of an opening are in flight, and another opening has succeeded.
    old.set(Faults { hold: 1.0, ..never() });
    world.sleep(secs(61));
    assert_eq!(
        kind(world.run(again.execute_within(add("n", 1), Some(ms(1))))),
        ErrorKind::UnknownOutcome
    );
    drop(first);
    let second = world.session(&new);
    world.run(second.execute(add("n", 1))).unwrap();
    world.run(old.deliver_delayed());
    world.run(second.execute(add("n", 1))).unwrap();
    assert_eq!(world.value("n"), 3);
}

fn send(world: &World, count: u64) {
    (0..count).for_each(|_| assert!(world.db.sessions().send("s", "x").unwrap().is_some()));
}

/// The server messages that two listeners have handled.
type Seen = Arc<Mutex<Vec<(&'static str, u64)>>>;

fn listen(world: &World, seen: &Seen, who: &'static str, session: &AsyncSession) {
    let seen = seen.clone();
    let session = session.clone();
    world.simulation.spawn(async move {
        let handle = |message: ServerMessage| {
            seen.lock().push((who, message.number));
            std::future::ready(Ok(()))
        };
        session.listen(handle).await.unwrap();
    });
    world.sleep(ms(1));
}

#[test]
fn letters_come_to_who_has_the_session() {
    let world = world();
    let transport = world.transport(never());
    let first = world.session(&transport);
    let seen = Seen::default();
    listen(&world, &seen, "first", &first);
    world.db.sessions().send("s", "x").unwrap();
    world.run(first.keep_alive()).unwrap();
    world.sleep(ms(5));
    let second = world.session(&transport);
    listen(&world, &seen, "second", &second);
    for _ in 0..3 {
        world.db.sessions().send("s", "x").unwrap();
        // Any write wakes the message wakers here.
        world.run(second.keep_alive()).unwrap();
        world.sleep(ms(5));
    }
    assert_eq!(*seen.lock(), [("first", 1), ("second", 2), ("second", 3), ("second", 4)]);
    assert!(!first.is_live() && second.is_live(), "who asks for letters hears of it");
    assert!(!world.run(first.close()).unwrap(), "it is not its own any more");
    assert!(world.run(second.execute(add("n", 1))).is_ok());
}

#[test]
fn letters_of_a_session_that_a_database_has_forgotten_are_not_those_of_the_next_one() {
    let world = world();
    let session =
        world.run(world.client(&world.transport(never()), silent()).open_async(named("s")));
    let session = session.unwrap();
    let seen = Arc::<Mutex<Vec<Vec<u8>>>>::default();
    let listening = session.clone();
    let handled = seen.clone();
    let simulation = world.simulation.clone();
    world.simulation.spawn(async move {
        let handle = |message: ServerMessage| {
            let handled = handled.clone();
            let simulation = simulation.clone();
            async move {
                if *message.payload == *b"slow" {
                    SimulatedRuntime(simulation).sleep(secs(26 * 3_600)).await;
                }
                handled.lock().push(message.payload.to_vec());
                Ok(())
            }
        };
        listening.listen(handle).await.unwrap();
    });
    for message in ["one", "slow", "late"] {
        world.db.sessions().send("s", message).unwrap();
    }
    world.run(session.keep_alive()).unwrap();
    world.sleep(ms(1));
    for hours in [1, 25] {
        world.sleep(secs(hours * 3_600));
        world.db.sweep().unwrap();
    }
    assert_eq!(kind(world.run(session.execute(add("n", 1)))), ErrorKind::SessionExpired);
    world.run(session.reopen()).unwrap();
    for message in ["new 1", "new 2"] {
        assert!(world.db.sessions().send("s", message).unwrap().is_some());
    }
    for _ in 0..100 {
        world.sleep(secs(30));
        world.run(session.keep_alive()).unwrap();
    }
    let seen: Vec<String> =
        seen.lock().iter().map(|message| String::from_utf8_lossy(message).into_owned()).collect();
    assert_eq!(seen, ["one", "slow", "new 1", "new 2"]);
    assert_eq!(world.db.stats().sessions.pending, 0);
}

#[test]
fn a_letter_whose_session_was_taken_back_meanwhile_is_handled_once() {
    let world = world();
    let transport = world.transport(never());
    let first = world.session(&transport);
    let seen = Arc::<Mutex<Vec<u64>>>::default();
    let listening = first.clone();
    let handled = seen.clone();
    let simulation = world.simulation.clone();
    world.simulation.spawn(async move {
        let handle = |message: ServerMessage| {
            let handled = handled.clone();
            let simulation = simulation.clone();
            async move {
                handled.lock().push(message.number);
                SimulatedRuntime(simulation).sleep(secs(1)).await;
                Ok(())
            }
        };
        listening.listen(handle).await.unwrap();
    });
    world.sleep(ms(1));
    world.db.sessions().send("s", "x").unwrap();
    world.run(first.keep_alive()).unwrap();
    world.sleep(ms(5));
    let second = world.session(&transport);
    assert_eq!(kind(world.run(first.keep_alive())), ErrorKind::SessionExpired);
    world.run(first.reopen()).unwrap();
    world.sleep(secs(5));
    assert_eq!((seen.lock().clone(), world.db.stats().sessions.pending), (vec![1], 0));
    assert_eq!(kind(world.run(second.keep_alive())), ErrorKind::SessionExpired);
}

#[test]
fn letters_of_a_new_session_that_somebody_else_opened_are_all_handled() {
    // Fewer server messages than were handled in the previous session, and more.
    for count in [2, 5] {
        let world = world();
        let client = world.client(&world.transport(never()), silent());
        let session = world.run(client.open_async(named("s"))).unwrap();
        let seen = Seen::default();
        listen(&world, &seen, "old", &session);
        send(&world, 3);
        world.run(session.keep_alive()).unwrap();
        world.sleep(ms(5));
        assert_eq!(std::mem::take(&mut *seen.lock()), [("old", 1), ("old", 2), ("old", 3)]);
        for hours in [1, 47] {
            world.sleep(secs(hours * 3_600));
            world.db.sweep().unwrap();
        }
        world.db.sessions().open(named("s")).unwrap();
        send(&world, count);
        assert_eq!(kind(world.run(session.keep_alive())), ErrorKind::SessionExpired);
        world.run(session.reopen()).unwrap();
        world.sleep(ms(5));
        let new: Vec<_> = (1..=count).map(|number| ("old", number)).collect();
        assert_eq!((seen.lock().clone(), world.db.stats().sessions.pending), (new, 0));
    }
}

/// Handles server messages; the first calls fail.
fn listen_failing(world: &World, session: &AsyncSession, failures: usize) -> Seen {
    let seen = Seen::default();
    let session = session.clone();
    let handled = seen.clone();
    world.simulation.spawn(async move {
        let handle = |message: ServerMessage| {
            let mut handled = handled.lock();
            handled.push(("", message.number));
            let is_well = handled.len() > failures;
            let failed = || Err(Error::new(mainstay::Code::Io, "on purpose"));
            std::future::ready(if is_well { Ok(()) } else { failed() })
        };
        session.listen(handle).await.unwrap();
    });
    world.sleep(ms(1));
    world.db.sessions().send("s", "x").unwrap();
    seen
}

/// Ends a session, by another owner or by expiry of the lease, and lets its client notice.
fn lose(world: &World, session: &AsyncSession, is_taken: bool) -> Option<AsyncSession> {
    let other = is_taken.then(|| world.session(&world.transport(never())));
    if !is_taken {
        world.sleep(secs(61));
    }
    assert_eq!(kind(world.run(session.keep_alive())), ErrorKind::SessionExpired);
    other
}

#[test]
fn a_letter_whose_handler_fails_is_brought_no_more_when_its_session_is_gone() {
    for is_taken in [true, false] {
        let world = world();
        let client = world.client(&world.transport(never()), silent());
        let session = world.run(client.open_async(named("s"))).unwrap();
        let seen = listen_failing(&world, &session, usize::MAX);
        world.run(session.keep_alive()).unwrap();
        world.sleep(secs(1));
        assert!(seen.lock().len() > 1);
        let other = lose(&world, &session, is_taken);
        let calls = seen.lock().len();
        world.sleep(secs(10));
        assert_eq!(seen.lock().len(), calls);
        // Server messages handled by the other owner are not redelivered with the reopened session.
        let theirs = Seen::default();
        other.iter().for_each(|other| listen(&world, &theirs, "", other));
        world.sleep(ms(5));
        world.run(session.reopen()).unwrap();
        world.sleep(secs(10));
        assert_eq!((seen.lock().len(), theirs.lock().len()), (calls, usize::from(is_taken)));
    }
}

#[test]
fn the_pause_after_a_handler_failed_ends_with_its_session() {
    for (is_taken, brought) in [(true, 2), (false, 1)] {
        let world = world();
        let slow = Settings { first_pause: secs(3_600), longest_pause: secs(3_600), ..silent() };
        let client = world.client(&world.transport(never()), slow);
        let session = world.run(client.open_async(named("s"))).unwrap();
        let seen = listen_failing(&world, &session, 1);
        world.run(session.keep_alive()).unwrap();
        world.sleep(ms(1));
        assert_eq!(seen.lock().len(), 1);
        lose(&world, &session, is_taken);
        world.run(session.reopen()).unwrap();
        world.sleep(secs(1));
        assert_eq!(seen.lock().len(), brought, "again, if it is the same session");
        world.db.sessions().send("s", "x").unwrap();
        world.run(session.keep_alive()).unwrap();
        world.sleep(secs(1));
        assert_eq!(seen.lock().last(), Some(&("", 2)));
    }
}

#[test]
fn what_is_closed_while_it_is_opened_anew_is_closed() {
    for seed in 0..20 {
        let world = world();
        let transport = world.transport(never());
        let session = world.run(world.client(&transport, silent()).open_async(named("s"))).unwrap();
        world.sleep(secs(61));
        assert_eq!(kind(world.run(session.keep_alive())), ErrorKind::SessionExpired);
        transport.set(Faults { delay: 1.0, seed, ..never() });
        let opening = session.clone();
        world.simulation.spawn(async move { drop(opening.reopen().await) });
        world.run(session.close()).unwrap();
        world.sleep(secs(1));
        assert_eq!(world.db.sessions().info("s").unwrap(), None, "seed {seed}");
    }
}

/// Clients that repeatedly take the session from each other, over transports that lose and repeat.
struct Rivals {
    world: World,
    results: Mutex<BTreeMap<i64, std::result::Result<i64, Error>>>,
}

impl Rivals {
    async fn work(
        self: Arc<Rivals>,
        client: i64,
        transport: Arc<Faulty>,
        injected_fault: Option<ClientFault>,
    ) {
        let runtime = Arc::new(SimulatedRuntime(self.world.simulation.clone()));
        let settings = Settings {
            deadline: Some(secs(30)),
            attempt: ms(20),
            first_pause: ms(1),
            longest_pause: ms(9),
            injected_fault,
            ..settings()
        };
        let client_object = Client::on(transport, settings, runtime.clone()).unwrap();
        let mut session = client_object.open_async(named("s")).await.unwrap();
        for n in 1..=15 {
            let id = client * 100 + n;
            match n % 4 {
                // A new object of the same client, or the same object again.
                0 => session = client_object.open_async(named("s")).await.unwrap(),
                _ if !session.is_live() => session.reopen().await.unwrap(),
                _ => runtime.sleep(ms(id as u64 % 7)).await,
            }
            let transaction = add(&format!("op/{id}"), id);
            let answer = match n % 3 {
                0 => self.crash(&client_object, &mut session, id, transaction).await,
                _ => session.execute(transaction).await,
            };
            self.results.lock().insert(id, answer.map(|receipt| sum(&Ok(receipt))));
        }
    }

    /// Stores a request, crashes before it is sent or while it is in flight, and resumes it.
    async fn crash(
        &self,
        client: &Client,
        session: &mut AsyncSession,
        id: i64,
        transaction: Transaction,
    ) -> Result<Receipt> {
        let request = session.request(transaction.clone()).await?;
        let epoch = request.epoch();
        let left = vec![(request.number(), transaction)];
        if id % 2 == 0 {
            let _ = request.answer_within(Some(ms(id as u64 % 5))).await;
        }
        SimulatedRuntime(self.world.simulation.clone()).sleep(ms(id as u64 % 11)).await;
        std::mem::forget(request);
        let resumed = client.resume_async(named("s"), epoch, left).await.unwrap();
        *session = resumed.0;
        resumed.1[0].answer().await
    }
}

/// The violations after rivals have worked.
fn wrong_after(seed: u64, injected_fault: Option<ClientFault>) -> Vec<String> {
    let rivals = Arc::new(Rivals { world: world(), results: Mutex::default() });
    // Calls are often delivered twice, with combined results.
    let faults = |n| Faults { repeat: 0.5, lose_answer: 0.1, ..Faults::many(seed * 10 + n) };
    let ways: Vec<_> = (0..3).map(|n| rivals.world.transport(faults(n))).collect();
    for (client, transport) in (1..).zip(&ways) {
        rivals.world.simulation.spawn(rivals.clone().work(
            client,
            transport.clone(),
            injected_fault,
        ));
    }
    while rivals.results.lock().len() < 45 {
        rivals.world.sleep(ms(10));
    }
    for transport in &ways {
        rivals.world.run(transport.deliver_delayed());
    }
    let results = rivals.results.lock();
    let wrong = |(id, result): (&i64, &std::result::Result<i64, Error>)| {
        let executed = rivals.world.value(&format!("op/{id}")) / id;
        let is_right = match result {
            Ok(sum) => *sum == *id && executed == 1,
            Err(error) if error.kind() == ErrorKind::UnknownOutcome => executed <= 1,
            Err(error) => error.kind() == ErrorKind::SessionExpired && executed == 0,
        };
        (!is_right).then(|| format!("seed {seed}, operation {id}: {executed} times, {result:?}"))
    };
    results.iter().filter_map(wrong).collect()
}

#[test]
fn rivals_never_get_each_others_answers() {
    for seed in 0..100 {
        assert_eq!(wrong_after(seed, None), Vec::<String>::new());
    }
    for injected_fault in [ClientFault::NoEpoch, ClientFault::AnyEpoch] {
        let found = (0..30).any(|seed| !wrong_after(seed, Some(injected_fault)).is_empty());
        assert!(found, "{injected_fault:?} is seen");
    }
}

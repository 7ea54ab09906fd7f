//! Several clients of one name: the last that opened the session has it, and nobody gets an answer of another one. And one
//! that goes on where another was before it.

use super::simulation::Surroundings;
use super::world::{World, cut, deaf, kind, never, settings, silent, world};
use super::*;
use mainstay::{Error, ErrorKind};
use mainstay_sessions::{AsyncSession, Faults, Faulty, Letter, Planted, Runtime};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::mpsc::channel;

/// An earlier client object has a request on its way that comes when the next one has opened the session.
fn answer_of_the_second(planted: Option<Planted>) -> (i64, i64, i64) {
    let world = world();
    let (old, new) = (world.way(never()), world.way(never()));
    let client = world.client(&old, Settings { planted, ..settings() });
    let first = world.run(client.open_async(named("s"))).unwrap();
    old.set(Faults { hold: 1.0, ..never() });
    let held = first.execute_within(add("old", 7), Some(ms(1)));
    assert_eq!(kind(world.run(held)), ErrorKind::UnknownOutcome);
    drop(first);
    let second = world.session(&new);
    assert!(world.run(old.settle()) > 0);
    let answer = sum(&world.run(second.execute(add("new", 1))));
    (answer, world.value("old"), world.value("new"))
}

#[test]
fn the_next_client_of_a_session_is_not_taken_for_the_one_before() {
    assert_eq!(answer_of_the_second(None), (1, 0, 1));
    assert_eq!(answer_of_the_second(Some(Planted::NoEpoch)), (7, 7, 0), "the bug is seen");
}

#[test]
fn the_one_before_hears_that_another_has_its_session() {
    let world = world();
    let (old, new) = (world.way(never()), world.way(never()));
    let first = world.session(&old);
    world.run(first.execute(add("n", 1))).unwrap();
    let second = world.session(&new);
    assert_eq!(sum(&world.run(second.execute(add("n", 1)))), 2);
    assert_eq!(kind(world.run(first.execute(add("n", 1)))), ErrorKind::SessionExpired);
    assert!(!first.is_live() && second.is_live());
    assert_eq!(world.value("n"), 2);
}

#[test]
fn requests_that_were_written_down_are_answered_after_a_crash_of_the_client() {
    let world = world();
    let way = world.way(never());
    let session = world.session(&way);
    let executed = world.run(session.request(add("a", 3))).unwrap();
    let lost = world.run(session.request(add("b", 4))).unwrap();
    way.set(deaf());
    assert_eq!(kind(world.run(executed.answer())), ErrorKind::UnknownOutcome);
    way.set(cut());
    assert_eq!(kind(world.run(lost.answer())), ErrorKind::UnknownOutcome);
    let left = vec![(executed.number(), add("a", 3)), (lost.number(), add("b", 4))];
    // As a crash would: nobody is told that they were given up.
    let opened = session.opened();
    std::mem::forget((executed, lost, session));
    way.set(Faults::many(4));
    let client = world.client(&way, Settings { deadline: None, ..settings() });
    let (session, requests) = world.run(client.resume_async(named("s"), opened, left)).unwrap();
    world.run(session.execute(add("c", 5))).unwrap();
    let sums: Vec<i64> = requests.iter().map(|one| sum(&world.run(one.answer()))).collect();
    world.run(way.settle());
    assert_eq!(sums, [3, 4]);
    assert_eq!(["a", "b", "c"].map(|cell| world.value(cell)), [3, 4, 5]);
}

#[test]
fn the_one_before_is_refused_however_far_its_numbers_are() {
    for expires in [false, true] {
        let world = world();
        let (old, new) = (world.way(never()), world.way(never()));
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
        drop(world.session(&world.way(never())));
        let slow = |seed| world.way(Faults { delay: 1.0, seed, ..never() });
        let clients = [seed, seed + 1_000].map(|seed| world.client(&slow(seed), settings()));
        let (tell, told) = channel();
        for client in clients {
            let tell = tell.clone();
            world.simulation.beside(async move {
                tell.send(client.open_async(named("s")).await.unwrap()).unwrap();
            });
        }
        world.sleep(secs(1));
        let sessions: Vec<AsyncSession> = told.try_iter().collect();
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
    let (old, new) = (world.way(never()), world.way(never()));
    let first = world.session(&old);
    world.run(first.execute(add("n", 1))).unwrap();
    let again = world.run(world.client(&old, silent()).open_async(named("s"))).unwrap();
    // Copies of an opening are under way, and another one has been through.
    old.set(Faults { hold: 1.0, ..never() });
    world.sleep(secs(61));
    assert_eq!(
        kind(world.run(again.execute_within(add("n", 1), Some(ms(1))))),
        ErrorKind::UnknownOutcome
    );
    drop(first);
    let second = world.session(&new);
    world.run(second.execute(add("n", 1))).unwrap();
    world.run(old.settle());
    world.run(second.execute(add("n", 1))).unwrap();
    assert_eq!(world.value("n"), 3);
}

#[test]
fn what_was_not_written_down_is_not_mistaken_for_what_comes_after() {
    let world = world();
    let (way, new) = (world.way(never()), world.way(never()));
    let once = Settings { first_pause: secs(9), longest_pause: secs(9), ..settings() };
    let session = world.run(world.client(&way, once).open_async(named("s"))).unwrap();
    let one = world.run(session.request(add("a", 1))).unwrap();
    way.set(deaf());
    assert_eq!(kind(world.run(one.answer_within(Some(ms(1))))), ErrorKind::UnknownOutcome);
    way.set(Faults { hold: 1.0, ..never() });
    let two = session.execute_within(add("b", 1), Some(ms(1)));
    assert_eq!(
        kind(world.run(two)),
        ErrorKind::UnknownOutcome,
        "on its way, and written down nowhere"
    );
    let (opened, left) = (session.opened(), vec![(one.number(), add("a", 1))]);
    std::mem::forget((one, session));
    let client = world.client(&new, settings());
    let (session, requests) = world.run(client.resume_async(named("s"), opened, left)).unwrap();
    assert!(world.run(way.settle()) > 0);
    assert_eq!(sum(&world.run(session.execute(add("c", 1)))), 1);
    assert!(world.run(requests[0].answer()).unwrap().repeated);
    assert_eq!(["a", "b", "c"].map(|cell| world.value(cell)), [1, 0, 1]);
}

#[test]
fn what_is_left_of_a_session_that_is_gone_is_not_executed_in_the_next_one() {
    // Within a day numbers go on behind those of before; after that nobody remembers them.
    for hours in [0, 25] {
        let world = world();
        let way = world.way(never());
        let session = world.run(world.client(&way, silent()).open_async(named("s"))).unwrap();
        let one = world.run(session.request(add("a", 1))).unwrap();
        way.set(deaf());
        assert_eq!(kind(world.run(one.answer())), ErrorKind::UnknownOutcome);
        let (opened, left) = (session.opened(), vec![(one.number(), add("a", 1))]);
        std::mem::forget((one, session));
        way.set(never());
        for time in [61, hours * 3_600] {
            world.sleep(secs(time));
            world.db.sweep().unwrap();
        }
        let client = world.client(&way, silent());
        let (session, requests) = world.run(client.resume_async(named("s"), opened, left)).unwrap();
        assert_eq!(kind(world.run(requests[0].answer())), ErrorKind::UnknownOutcome);
        world.run(session.execute(add("b", 1))).unwrap();
        assert_eq!((world.value("a"), world.value("b")), (1, 1));
    }
}

#[test]
fn numbers_that_make_no_sense_are_not_gone_on_with() {
    let world = world();
    let way = world.way(never());
    let opened = world.session(&way).opened();
    for numbers in [vec![0], vec![u64::MAX], vec![1, 2, 1]] {
        let left = numbers.into_iter().map(|number| (number, add("n", 1))).collect();
        let client = world.client(&way, settings());
        let resumed = client.resume_async(named("s"), opened, left);
        assert_eq!(world.run(resumed).map(drop).unwrap_err().kind(), ErrorKind::Invalid);
    }
}

/// What two listeners have handled.
type Seen = Arc<Mutex<Vec<(&'static str, u64)>>>;

fn listen(world: &World, seen: &Seen, who: &'static str, session: &AsyncSession) {
    let (seen, session) = (seen.clone(), session.clone());
    world.simulation.beside(async move {
        let handle = |letter: Letter| {
            seen.lock().push((who, letter.number));
            std::future::ready(Ok(()))
        };
        session.listen(handle).await.unwrap();
    });
    world.sleep(ms(1));
}

#[test]
fn letters_come_to_who_has_the_session() {
    let world = world();
    let way = world.way(never());
    let (first, seen) = (world.session(&way), Seen::default());
    listen(&world, &seen, "first", &first);
    world.db.sessions().send("s", "x").unwrap();
    world.run(first.keep_alive()).unwrap();
    world.sleep(ms(5));
    let second = world.session(&way);
    listen(&world, &seen, "second", &second);
    for _ in 0..3 {
        world.db.sessions().send("s", "x").unwrap();
        // Whatever is written rings the bells here.
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
    let session = world.run(world.client(&world.way(never()), silent()).open_async(named("s")));
    let (session, seen) = (session.unwrap(), Arc::<Mutex<Vec<Vec<u8>>>>::default());
    let (listening, handled, simulation) =
        (session.clone(), seen.clone(), world.simulation.clone());
    world.simulation.beside(async move {
        let handle = |letter: Letter| {
            let (handled, simulation) = (handled.clone(), simulation.clone());
            async move {
                if *letter.payload == *b"slow" {
                    Surroundings(simulation).sleep(secs(26 * 3_600)).await;
                }
                handled.lock().push(letter.payload.to_vec());
                Ok(())
            }
        };
        listening.listen(handle).await.unwrap();
    });
    for letter in ["one", "slow", "late"] {
        world.db.sessions().send("s", letter).unwrap();
    }
    world.run(session.keep_alive()).unwrap();
    world.sleep(ms(1));
    for hours in [1, 25] {
        world.sleep(secs(hours * 3_600));
        world.db.sweep().unwrap();
    }
    assert_eq!(kind(world.run(session.execute(add("n", 1)))), ErrorKind::SessionExpired);
    world.run(session.reopen()).unwrap();
    for letter in ["new 1", "new 2"] {
        assert!(world.db.sessions().send("s", letter).unwrap().is_some());
    }
    for _ in 0..100 {
        world.sleep(secs(30));
        world.run(session.keep_alive()).unwrap();
    }
    let seen: Vec<String> =
        seen.lock().iter().map(|letter| String::from_utf8_lossy(letter).into_owned()).collect();
    assert_eq!(seen, ["one", "slow", "new 1", "new 2"]);
    assert_eq!(world.db.stats().sessions.pending, 0);
}

#[test]
fn a_letter_whose_session_was_taken_back_meanwhile_is_handled_once() {
    let world = world();
    let way = world.way(never());
    let (first, seen) = (world.session(&way), Arc::<Mutex<Vec<u64>>>::default());
    let (listening, handled, simulation) = (first.clone(), seen.clone(), world.simulation.clone());
    world.simulation.beside(async move {
        let handle = |letter: Letter| {
            let (handled, simulation) = (handled.clone(), simulation.clone());
            async move {
                handled.lock().push(letter.number);
                Surroundings(simulation).sleep(secs(1)).await;
                Ok(())
            }
        };
        listening.listen(handle).await.unwrap();
    });
    world.sleep(ms(1));
    world.db.sessions().send("s", "x").unwrap();
    world.run(first.keep_alive()).unwrap();
    world.sleep(ms(5));
    let second = world.session(&way);
    assert_eq!(kind(world.run(first.keep_alive())), ErrorKind::SessionExpired);
    world.run(first.reopen()).unwrap();
    world.sleep(secs(5));
    assert_eq!((seen.lock().clone(), world.db.stats().sessions.pending), (vec![1], 0));
    assert_eq!(kind(world.run(second.keep_alive())), ErrorKind::SessionExpired);
}

#[test]
fn what_is_closed_while_it_is_opened_anew_is_closed() {
    for seed in 0..20 {
        let world = world();
        let way = world.way(never());
        let session = world.run(world.client(&way, silent()).open_async(named("s"))).unwrap();
        world.sleep(secs(61));
        assert_eq!(kind(world.run(session.keep_alive())), ErrorKind::SessionExpired);
        way.set(Faults { delay: 1.0, seed, ..never() });
        let opening = session.clone();
        world.simulation.beside(async move { drop(opening.reopen().await) });
        world.run(session.close()).unwrap();
        world.sleep(secs(1));
        assert_eq!(world.db.sessions().info("s").unwrap(), None, "seed {seed}");
    }
}

/// Clients that take their session from each other again and again, on ways that lose and repeat.
struct Rivals {
    world: World,
    told: Mutex<BTreeMap<i64, std::result::Result<i64, Error>>>,
}

impl Rivals {
    async fn work(self: Arc<Rivals>, client: i64, way: Arc<Faulty>, planted: Option<Planted>) {
        let runtime = Arc::new(Surroundings(self.world.simulation.clone()));
        let settings = Settings {
            deadline: Some(secs(30)),
            attempt: ms(20),
            first_pause: ms(1),
            longest_pause: ms(9),
            planted,
            ..settings()
        };
        let client_object = mainstay_sessions::Client::on(way, settings, runtime.clone()).unwrap();
        let mut session = client_object.open_async(named("s")).await.unwrap();
        for n in 1..=15 {
            let id = client * 100 + n;
            match n % 4 {
                // Another object of the same client, or the same one again.
                0 => session = client_object.open_async(named("s")).await.unwrap(),
                _ if !session.is_live() => session.reopen().await.unwrap(),
                _ => runtime.sleep(ms(id as u64 % 7)).await,
            }
            let answer = session.execute(add(&format!("op/{id}"), id)).await;
            self.told.lock().insert(id, answer.map(|receipt| sum(&Ok(receipt))));
        }
    }
}

/// What is wrong after rivals have worked.
fn wrong_after(seed: u64, planted: Option<Planted>) -> Vec<String> {
    let rivals = Arc::new(Rivals { world: world(), told: Mutex::default() });
    let ways: Vec<_> = (0..3).map(|n| rivals.world.way(Faults::many(seed * 10 + n))).collect();
    for (client, way) in (1..).zip(&ways) {
        rivals.world.simulation.beside(rivals.clone().work(client, way.clone(), planted));
    }
    while rivals.told.lock().len() < 45 {
        rivals.world.sleep(ms(10));
    }
    for way in &ways {
        rivals.world.run(way.settle());
    }
    let told = rivals.told.lock();
    let wrong = |(id, told): (&i64, &std::result::Result<i64, Error>)| {
        let executed = rivals.world.value(&format!("op/{id}")) / id;
        let is_right = match told {
            Ok(sum) => *sum == *id && executed == 1,
            Err(error) if error.kind() == ErrorKind::UnknownOutcome => executed <= 1,
            Err(error) => error.kind() == ErrorKind::SessionExpired && executed == 0,
        };
        (!is_right).then(|| format!("seed {seed}, operation {id}: {executed} times, {told:?}"))
    };
    told.iter().filter_map(wrong).collect()
}

#[test]
fn rivals_never_get_each_others_answers() {
    for seed in 0..30 {
        assert_eq!(wrong_after(seed, None), Vec::<String>::new());
    }
    let found = (0..30).any(|seed| !wrong_after(seed, Some(Planted::NoEpoch)).is_empty());
    assert!(found, "the bug is seen");
}

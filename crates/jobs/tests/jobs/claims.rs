use crate::world::{START_MS, World, code, job, name};
use mainstay::{CellCommand, Code, Name};
use mainstay_jobs::{Jobs, Retry, Settings, State, TypeSettings, field};
use std::time::Duration;

#[test]
fn jobs_are_claimed_by_priority_then_age() {
    let world = World::new();
    for (id, priority) in [("old", 0), ("low", -5), ("a", 3), ("young", 0), ("high", 100)] {
        world.jobs.submit(&job(id).priority(priority)).unwrap();
    }
    let order: Vec<String> = std::iter::from_fn(|| world.next_id()).collect();
    assert_eq!(order, ["high", "a", "old", "young", "low"]);
}

#[test]
fn a_job_is_not_claimed_before_its_time() {
    let world = World::new();
    world.jobs.submit(&job("later").run_at_ms(START_MS + 100).priority(9)).unwrap();
    world.jobs.submit(&job("past").run_at_ms(START_MS - 100)).unwrap();
    assert_eq!(world.next_id().as_deref(), Some("past"));
    world.pass_ms(99);
    assert_eq!(world.next_id(), None);
    world.submit("now");
    world.pass_ms(1);
    assert_eq!(world.next_id().as_deref(), Some("later"), "its priority counts once it is due");
    assert_eq!(world.next_id().as_deref(), Some("now"));
}

#[test]
fn a_claim_by_index_walks_nothing_else() {
    let world = World::new();
    let filters = [
        mainstay::Where {
            field: mainstay::Field::new(field::TASK_TYPE).unwrap(),
            test: mainstay::Test::Eq(b"t".into()),
        },
        mainstay::Where {
            field: mainstay::Field::new(field::STATE).unwrap(),
            test: mainstay::Test::Eq(b"pending".into()),
        },
    ];
    let how = world.db.records().explain("mainstay.state.tasks.t.", &filters).unwrap();
    assert!(how.contains("(task_type, state, rank)") && how.contains("by the index"), "{how}");
}

#[test]
fn a_claim_says_who_until_when_and_with_which_token() {
    let world = World::new();
    world.submit("a");
    let claimed = world.jobs.claim("t", "w1", Some(Duration::from_millis(70))).unwrap().unwrap();
    let job = world.jobs.get(&name("a")).unwrap().unwrap();
    assert_eq!(job, claimed.job);
    assert_eq!(job.worker.as_deref(), Some("w1"));
    assert_eq!(job.timeout_at, Some(START_MS + 70));
    assert_eq!((job.state, job.token), (State::Claimed, Some(claimed.grant.token)));
    assert_eq!(claimed.grant.token, world.db.revision());
    world.submit("b");
    assert!(world.claimed().grant.token > claimed.grant.token);
}

#[test]
fn leases_and_budgets_come_from_the_job_then_its_type_then_all() {
    let own = TypeSettings { timeout_ms: Some(500), max_retries: Some(7) };
    let types = [("t".to_owned(), own)].into();
    let world = World::with(Settings { types, ..Settings::default() });
    world.submit("type");
    world.jobs.submit(&job("own").timeout_ms(50).max_retries(1)).unwrap();
    let of_type = world.claimed().job;
    let of_job = world.claimed().job;
    assert_eq!((of_type.timeout_at, of_type.max_retries), (Some(START_MS + 500), 7));
    assert_eq!((of_job.timeout_at, of_job.max_retries), (Some(START_MS + 50), 1));
    world.jobs.submit(&mainstay_jobs::Submission::new("other", "1")).unwrap();
    let of_all = world.jobs.claim("other", "w", None).unwrap().unwrap().job;
    assert_eq!((of_all.timeout_at, of_all.max_retries), (Some(START_MS + 30_000), 3));
}

#[test]
fn what_is_done_beside_a_claim_happens_with_it_or_not_at_all() {
    let world = World::new();
    let note = CellCommand::set(Name::new("note").unwrap(), 1);
    let beside = world.jobs.with_commands([note.into()]);
    assert_eq!(beside.claim("t", "w", None).unwrap(), None);
    assert_eq!(world.db.cells().get("note").unwrap(), None);
    world.submit("a");
    let grant = beside.claim("t", "w", None).unwrap().unwrap().grant;
    let note = world.db.cells().get_versioned("note").unwrap().unwrap();
    assert_eq!(note.revision, grant.token, "in one transaction");
    beside.complete(&grant, None).unwrap();
    beside.complete(&grant, None).unwrap();
    let note = world.db.cells().get_versioned("note").unwrap().unwrap();
    assert_eq!(note.counter, 2, "a repeated call does it once");
}

#[test]
fn waiting_ends_when_a_job_comes_and_when_the_time_is_over() {
    let db = mainstay::Database::memory().unwrap();
    let jobs = mainstay_jobs::Jobs::open(&db, Settings::default()).unwrap();
    let none = jobs.claim_within("t", "w", None, Duration::from_millis(20)).unwrap();
    assert_eq!(none, None);
    let long = Duration::from_secs(3600);
    let waiter = std::thread::spawn({
        let jobs = jobs.clone();
        move || [(); 2].map(|()| jobs.claim_within("t", "w", None, long).unwrap().unwrap())
    });
    let now_ms = jobs.now_us().unwrap() / 1000;
    // No write happens when the second job becomes due.
    jobs.submit(&job("soon").run_at_ms(now_ms + 300)).unwrap();
    jobs.submit(&job("now")).unwrap();
    let [first, second] = waiter.join().unwrap();
    assert_eq!([first.grant.name, second.grant.name], [name("now"), name("soon")]);
    assert!(jobs.now_us().unwrap() / 1000 >= now_ms + 300, "not before its time");
}

#[test]
fn input_that_makes_no_sense_is_refused_and_nothing_written() {
    let world = World::new();
    let before = world.db.revision();
    let jobs = &world.jobs;
    assert_eq!(code(jobs.submit(&mainstay_jobs::Submission::new("a.b", "1"))), Code::InvalidName);
    assert_eq!(code(jobs.submit(&job(""))), Code::InvalidName);
    assert_eq!(code(jobs.submit(&job("a").timeout_ms(0))), Code::InvalidArgument);
    assert_eq!(code(jobs.claim("t", "w", Some(Duration::ZERO))), Code::InvalidArgument);
    assert_eq!(code(jobs.cancel(&name("a"))), Code::JobNotFound);
    assert_eq!(code(jobs.retry(&name("a"))), Code::JobNotFound);
    assert_eq!(world.db.revision(), before);
    world.submit("a");
    assert_eq!(code(jobs.submit(&job("a").priority(3))), Code::JobExists);
    assert_eq!(jobs.get(&name("a")).unwrap().unwrap().priority, 0);
}

#[test]
fn jobs_are_listed_counted_and_looked_at_as_they_were() {
    let world = World::new();
    ["a", "b", "c"].iter().for_each(|id| world.submit(id));
    let before = world.db.revision();
    let grant = world.claimed().grant;
    world.jobs.complete(&grant, Some(b"out")).unwrap();
    let page = world.jobs.list("t", Some(State::Pending), None, 1).unwrap();
    assert_eq!((page.jobs[0].name.id(), page.next.as_deref()), ("b", Some("b")));
    let page = world.jobs.list("t", None, page.next.as_deref(), 10).unwrap();
    assert_eq!((page.jobs.len(), page.next), (1, None));
    assert_eq!(world.jobs.count("t", State::Pending).unwrap(), 2);
    let then = world.jobs.get_at(&name("a"), mainstay::At::Revision(before)).unwrap().unwrap();
    assert_eq!(then.state, State::Pending);
    assert_eq!(world.jobs.history(&name("a"), 10, None).unwrap().len(), 3);
    let done = world.jobs.get(&name("a")).unwrap().unwrap();
    assert_eq!(world.jobs.result(&done).unwrap().as_deref(), Some(&b"out"[..]));
}

/// Each error names its cause.
#[test]
fn names_steps_and_delays_that_make_no_sense_are_refused() {
    let world = World::new();
    let lease = Duration::from_secs(1);
    let locks = world.jobs.locks();
    world.submit("a");
    let revision = world.db.revision();
    let says = |error: mainstay::Error, code: Code, words: &str| {
        assert_eq!(error.code(), code, "{error}");
        assert!(error.message().contains(words), "{error}");
    };
    says(world.jobs.claim("t", "", None).unwrap_err(), Code::InvalidName, "a worker is empty");
    says(locks.take("", "o", lease).unwrap_err(), Code::InvalidName, "a lock is empty");
    says(locks.take("l", "", lease).unwrap_err(), Code::InvalidName, "a lock's owner is empty");
    says(locks.renew("", 1, lease).unwrap_err(), Code::InvalidName, "a lock is empty");
    says(locks.free("", 1).unwrap_err(), Code::InvalidName, "a lock is empty");
    says(locks.holder("").unwrap_err(), Code::InvalidName, "a lock is empty");
    for namespace in ["_mainstay/jobs.".to_owned(), "x".repeat(501)] {
        let settings = Settings { namespace, ..Settings::default() };
        let refused = Jobs::open(&world.db, settings).map(drop);
        says(refused.unwrap_err(), Code::InvalidName, "namespace");
    }
    assert_eq!(world.db.revision(), revision, "nothing was written");
    let grant = world.claimed().grant;
    let refused = world.jobs.step(&grant, 5, Some(2)).unwrap_err();
    says(refused, Code::InvalidArgument, "step 5 of 2");
    let refused = world.jobs.fail(&grant, "no", Retry::After(Duration::ZERO));
    says(refused.unwrap_err(), Code::InvalidArgument, "delay of a retry: 0 ms");
    let soon = Retry::After(Duration::from_micros(500));
    assert_eq!(world.jobs.fail(&grant, "no", soon).unwrap(), State::Pending);
    assert_eq!(world.next_id(), None, "not before its time");
    world.pass_ms(2);
    assert_eq!(world.next_id().as_deref(), Some("a"));
}

/// More jobs than are made ready in one transaction, in another order than that of their keys.
#[test]
fn due_jobs_come_by_priority_and_time_however_many_there_are() {
    let world = World::new();
    let due = |n: u64| {
        let id = format!("j{:03}", 300 - n);
        job(&id).run_at_ms(START_MS + 1 + n).priority(if n == 250 { 1 } else { 0 })
    };
    let all: Vec<_> = (0..300).map(due).collect();
    world.jobs.submit_all(&all).unwrap();
    assert_eq!(world.next_id(), None);
    world.pass_ms(1000);
    let before = world.db.revision();
    assert_eq!(world.next_id().as_deref(), Some("j050"), "the priority counts");
    assert_eq!(world.db.revision() - before, 4, "a hundred in one transaction");
    for n in (0..300).filter(|n| *n != 250) {
        assert_eq!(world.next_id(), Some(format!("j{:03}", 300 - n)));
    }
    assert_eq!(world.next_id(), None);
}

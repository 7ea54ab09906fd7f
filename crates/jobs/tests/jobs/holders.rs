use crate::world::{START_MS, World, code, job, name};
use mainstay::Code;
use mainstay_jobs::{Grant, Retry, State};
use std::time::Duration;

fn write_all(world: &World, grant: &Grant) -> [Code; 5] {
    let jobs = &world.jobs;
    [
        code(jobs.heartbeat(grant, None)),
        code(jobs.step(grant, 1, None)),
        code(jobs.complete(grant, None)),
        code(jobs.fail(grant, "no", Retry::Never)),
        code(jobs.fail(grant, "no", Retry::Now)),
    ]
}

/// Covers every way to lose a job.
#[test]
fn whoever_lost_its_job_is_fenced_whatever_it_tries() {
    let ways: [fn(&World, &Grant); 5] = [
        // Swept.
        |world, _| {
            world.pass_ms(30_001);
            assert_eq!(world.jobs.sweep().unwrap().retried, 1);
        },
        // Swept, then claimed by another worker.
        |world, _| {
            world.pass_ms(30_001);
            world.jobs.sweep().unwrap();
            world.claimed();
        },
        |world, grant| assert_eq!(world.jobs.cancel(&grant.name).unwrap(), State::Cancelled),
        // Cancelled, retried, and claimed by another worker.
        |world, grant| {
            world.jobs.cancel(&grant.name).unwrap();
            world.jobs.retry(&grant.name).unwrap();
            world.claimed();
        },
        // Its record was deleted.
        |world, grant| assert!(world.db.records().delete(&world.jobs.key(&grant.name)).unwrap()),
    ];
    for lose in ways {
        let world = World::new();
        world.submit("a");
        let grant = world.claimed().grant;
        lose(&world, &grant);
        let before = world.db.revision();
        assert_eq!(write_all(&world, &grant), [Code::Fenced; 5]);
        assert_eq!(world.db.revision(), before, "nothing was written");
    }
}

#[test]
fn a_token_of_another_job_fences() {
    let world = World::new();
    world.submit("a");
    world.submit("b");
    let a = world.claimed().grant;
    let b = world.claimed().grant;
    let mixed = Grant { name: a.name.clone(), token: b.token };
    assert_eq!(write_all(&world, &mixed), [Code::Fenced; 5]);
    world.jobs.complete(&a, None).unwrap();
}

#[test]
fn a_heartbeat_keeps_the_job() {
    let world = World::new();
    world.submit("a");
    let grant = world.claimed().grant;
    for _ in 0..5 {
        world.pass_ms(30_000);
        assert_eq!(world.jobs.sweep().unwrap().looked_at, 0);
        world.jobs.heartbeat(&grant, None).unwrap();
    }
    world.jobs.heartbeat(&grant, Some(Duration::from_millis(10))).unwrap();
    world.jobs.step(&grant, 2, Some(5)).unwrap();
    let job = world.jobs.get(&name("a")).unwrap().unwrap();
    assert_eq!(
        job.timeout_at,
        Some(START_MS + 150_010),
        "a step goes by the lease that was asked for"
    );
    assert_eq!((job.state, job.current_step, job.step_count), (State::Running, Some(2), Some(5)));
}

#[test]
fn completing_and_failing_twice_answers_the_same() {
    let world = World::new();
    world.submit("a");
    let grant = world.claimed().grant;
    assert_eq!(world.jobs.fail(&grant, "one", Retry::Now).unwrap(), State::Pending);
    assert_eq!(world.jobs.fail(&grant, "one", Retry::Now).unwrap(), State::Pending);
    assert_eq!(world.jobs.get(&name("a")).unwrap().unwrap().retry_count, 1);
    let second = world.claimed().grant;
    // Also while another worker holds the job: the first holder returned it itself.
    assert_eq!(world.jobs.fail(&grant, "one", Retry::Now).unwrap(), State::Pending);
    assert_eq!(code(world.jobs.complete(&grant, None)), Code::Fenced);
    assert_eq!(world.jobs.complete(&second, None).unwrap(), State::Completed);
    let before = world.db.revision();
    assert_eq!(world.jobs.complete(&second, None).unwrap(), State::Completed);
    assert_eq!(world.db.revision(), before);
}

#[test]
fn what_the_table_does_not_have_is_refused() {
    let world = World::new();
    world.submit("a");
    let grant = world.claimed().grant;
    world.jobs.complete(&grant, None).unwrap();
    let before = world.db.revision();
    for refused in [
        world.jobs.heartbeat(&grant, None),
        world.jobs.step(&grant, 1, None),
        world.jobs.fail(&grant, "no", Retry::Now),
        world.jobs.cancel(&grant.name),
        world.jobs.retry(&grant.name),
    ] {
        assert_eq!(code(refused), Code::IllegalTransition);
    }
    world.submit("b");
    assert_eq!(code(world.jobs.retry(&name("b"))), Code::IllegalTransition);
    assert_eq!(world.db.revision(), before + 1);
    let held = world.claimed().grant;
    assert_eq!(code(world.jobs.retry(&held.name)), Code::IllegalTransition);
    world.jobs.complete(&held, None).unwrap();
}

#[test]
fn a_job_is_tried_again_as_often_as_it_may() {
    let world = World::new();
    world.jobs.submit(&job("a").max_retries(2)).unwrap();
    for expected in [State::Pending, State::Pending, State::Failed] {
        let grant = world.claimed().grant;
        assert_eq!(world.jobs.fail(&grant, "no", Retry::Now).unwrap(), expected);
    }
    assert_eq!(world.jobs.get(&name("a")).unwrap().unwrap().error.as_deref(), Some("no"));
    assert_eq!(world.jobs.retry(&name("a")).unwrap(), State::Pending);
    let grant = world.claimed().grant;
    assert_eq!(world.jobs.fail(&grant, "no", Retry::Never).unwrap(), State::Failed);
}

#[test]
fn a_retry_after_a_while_waits_for_it() {
    let world = World::new();
    world.submit("a");
    let retry = Retry::After(Duration::from_millis(500));
    world.jobs.fail(&world.claimed().grant, "busy", retry).unwrap();
    world.pass_ms(499);
    assert_eq!(world.next_id(), None);
    world.pass_ms(1);
    assert_eq!(world.next_id().as_deref(), Some("a"));
}

#[test]
fn completed_jobs_go_when_they_are_kept_for_a_while_only() {
    let settings = mainstay_jobs::Settings { keep_completed_ms: Some(100), ..Default::default() };
    let world = World::with(settings);
    world.submit("a");
    world.jobs.complete(&world.claimed().grant, None).unwrap();
    world.pass_ms(99);
    assert_eq!(world.state("a"), State::Completed);
    world.pass_ms(2);
    assert_eq!(world.jobs.get(&name("a")).unwrap(), None);
}

/// The history of a job is read page by page.
#[test]
fn what_a_holder_did_long_ago_is_still_its_answer() {
    let world = World::new();
    world.submit("a");
    let first = world.claimed().grant;
    assert_eq!(world.jobs.fail(&first, "no", Retry::Now).unwrap(), State::Pending);
    let second = world.claimed().grant;
    for _ in 0..35 {
        world.jobs.heartbeat(&second, None).unwrap();
    }
    assert_eq!(world.jobs.fail(&first, "no", Retry::Now).unwrap(), State::Pending);
    assert_eq!(code(world.jobs.complete(&first, None)), Code::Fenced);
}

#[test]
fn a_claim_without_a_lease_of_its_own_forgets_that_of_the_last() {
    let world = World::new();
    world.jobs.submit(&job("a").timeout_ms(5000)).unwrap();
    let lease = Some(Duration::from_millis(10));
    let first = world.jobs.claim("t", "w", lease).unwrap().unwrap();
    assert_eq!(first.job.lease_ms, Some(10));
    world.jobs.fail(&first.grant, "no", Retry::Now).unwrap();
    let second = world.claimed();
    assert_eq!((second.job.lease_ms, second.job.timeout_at), (Some(5000), Some(START_MS + 5000)));
}

#[test]
fn whatever_is_pending_again_comes_behind_what_waits() {
    let world = World::new();
    for id in ["a", "b", "c", "d"] {
        world.submit(id);
        world.pass_ms(1);
    }
    let [a, b] = [(); 2].map(|()| world.claimed().grant);
    world.jobs.fail(&a, "no", Retry::Now).unwrap();
    world.pass_ms(30_001);
    world.jobs.sweep().unwrap();
    assert_eq!(code(world.jobs.heartbeat(&b, None)), Code::Fenced);
    let order = [(); 4].map(|()| world.next_id().unwrap());
    assert_eq!(order, ["c", "d", "a", "b"]);
}

#[test]
fn a_job_that_waited_for_a_retry_is_ready_when_it_is_retried_by_hand() {
    let world = World::new();
    world.submit("a");
    let after = Retry::After(Duration::from_secs(3600));
    world.jobs.fail(&world.claimed().grant, "busy", after).unwrap();
    world.jobs.cancel(&name("a")).unwrap();
    assert_eq!(world.jobs.retry(&name("a")).unwrap(), State::Pending);
    assert_eq!(world.next_id().as_deref(), Some("a"));
}

/// The extra commands of an operation execute once, and never with its additional transactions.
#[test]
fn what_is_done_beside_is_done_once() {
    let world = World::new();
    let add = mainstay::CellCommand::Incr { name: mainstay::Name::new("n").unwrap(), by: 1.into() };
    let jobs = world.jobs.with_commands([mainstay::Command::from(add)]);
    let count = || world.db.cells().get("n").unwrap();
    world.jobs.submit(&job("a").run_at_ms(START_MS + 5).timeout_ms(77)).unwrap();
    world.pass_ms(10);
    jobs.claim("t", "w", None).unwrap().unwrap();
    assert_eq!(count(), Some(1.into()), "neither with what is due nor with a lease of its own");
    world.pass_ms(78);
    assert_eq!(jobs.sweep().unwrap().retried, 1);
    assert_eq!(count(), Some(1.into()));
}

#[test]
fn failed_and_cancelled_jobs_go_when_they_are_kept_for_a_while_only() {
    let settings = mainstay_jobs::Settings { keep_failed_ms: Some(100), ..Default::default() };
    let world = World::with(settings);
    for id in ["failed", "swept", "waited"] {
        world.jobs.submit(&job(id).max_retries(0)).unwrap();
    }
    world.jobs.submit(&job("waits").depends_on("waited")).unwrap();
    world.jobs.fail(&world.claimed().grant, "no", Retry::Now).unwrap();
    world.jobs.claim("t", "w", Some(Duration::from_millis(1))).unwrap().unwrap();
    world.pass_ms(2);
    assert_eq!(world.jobs.sweep().unwrap().failed, 1);
    world.jobs.cancel(&name("waited")).unwrap();
    world.submit("cancelled");
    world.submit("again");
    world.submit("waited-later");
    for id in ["cancelled", "again", "waited-later"] {
        world.jobs.cancel(&name(id)).unwrap();
    }
    world.jobs.retry(&name("again")).unwrap();
    world.jobs.submit(&job("late").depends_on("waited-later")).unwrap();
    world.pass_ms(101);
    let left = world.jobs.list("t", None, None, 9).unwrap().jobs;
    let left: Vec<_> = left.iter().map(|job| job.name.id()).collect();
    assert_eq!(left, ["again", "late", "waited", "waited-later", "waits"]);
}

#[test]
fn what_has_ended_is_deleted_unless_somebody_waits_for_it() {
    for handle_kind in crate::handles::HANDLE_KINDS {
        let world = World::new();
        let jobs = handle_kind.of(&world.jobs);
        world.submit("a");
        world.jobs.submit(&job("b").depends_on("a")).unwrap();
        assert_eq!(code(jobs.delete(&name("a"))), Code::IllegalTransition, "{handle_kind:?}");
        world.jobs.cancel(&name("a")).unwrap();
        assert_eq!(code(jobs.delete(&name("a"))), Code::IllegalTransition, "{handle_kind:?}");
        world.jobs.retry(&name("a")).unwrap();
        world.jobs.complete(&world.claimed().grant, None).unwrap();
        assert_eq!(jobs.delete(&name("a")).unwrap(), State::Completed);
        assert_eq!(code(jobs.delete(&name("a"))), Code::JobNotFound);
        let grant = world.claimed().grant;
        world.jobs.fail(&grant, "no", Retry::Never).unwrap();
        assert_eq!(jobs.delete(&name("b")).unwrap(), State::Failed);
        assert_eq!(world.jobs.list("t", None, None, 9).unwrap().jobs, []);
    }
}

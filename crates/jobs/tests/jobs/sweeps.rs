use crate::world::{START_MS, World, code, job, name};
use mainstay::{Code, Fields};
use mainstay_jobs::{Retry, Settings, State, SweepReport, Sweeper};
use std::time::Duration;

#[test]
fn only_silent_holders_lose_their_jobs() {
    let world = World::new();
    world.jobs.submit(&job("last").max_retries(0).priority(2)).unwrap();
    world.jobs.submit(&job("again").priority(1)).unwrap();
    world.jobs.submit(&job("running").priority(1)).unwrap();
    let [last, again, running] = [(); 3].map(|()| world.claimed().grant);
    world.jobs.step(&running, 1, None).unwrap();
    world.submit("queued");
    world.jobs.submit(&job("later").run_at_ms(START_MS + 1_000_000)).unwrap();
    world.jobs.submit(&job("blocked").depends_on("queued")).unwrap();
    world.pass_ms(30_000);
    assert_eq!(world.jobs.sweep().unwrap(), SweepReport::default(), "not before the lease is over");
    world.pass_ms(1);
    let report = world.jobs.sweep().unwrap();
    assert_eq!((report.looked_at, report.retried, report.failed), (3, 2, 1));
    let states =
        ["last", "again", "running", "queued", "later", "blocked"].map(|id| world.state(id));
    use State::{Blocked, Failed, Pending};
    assert_eq!(states, [Failed, Pending, Pending, Pending, Pending, Blocked]);
    let counts =
        ["again", "queued"].map(|id| world.jobs.get(&name(id)).unwrap().unwrap().retry_count);
    assert_eq!(counts, [1, 0], "who merely waits loses no retry");
    for grant in [last, again] {
        assert_eq!(code(world.jobs.heartbeat(&grant, None)), Code::Fenced);
    }
    assert_eq!(world.jobs.sweep().unwrap(), SweepReport::default());
}

#[test]
fn the_threshold_finds_what_nobody_has_written_to() {
    let world = World::with(Settings { stuck_after_ms: Some(1000), ..Settings::default() });
    world.submit("a");
    let lease = Some(Duration::from_secs(3600));
    let grant = world.jobs.claim("t", "w", lease).unwrap().unwrap().grant;
    for _ in 0..3 {
        world.pass_ms(1000);
        assert_eq!(world.jobs.sweep().unwrap().looked_at, 0);
        world.jobs.heartbeat(&grant, None).unwrap();
    }
    world.pass_ms(1001);
    assert_eq!(world.jobs.sweep().unwrap().retried, 1);
    // The same with an explicit threshold, without an index.
    let world = World::new();
    world.submit("a");
    world.jobs.claim("t", "w", lease).unwrap().unwrap();
    world.pass_ms(51);
    assert_eq!(world.jobs.sweep_stuck(Some(51)).unwrap().retried, 0);
    assert_eq!(world.jobs.sweep_stuck(Some(50)).unwrap().retried, 1);
}

#[test]
fn a_clock_that_steps_back_ends_no_lease_and_delays_none_for_ever() {
    let world = World::new();
    world.submit("a");
    let grant = world.claimed().grant;
    world.clock.set_wall((START_MS - 10_000_000) * 1000);
    assert_eq!(world.jobs.sweep().unwrap().looked_at, 0);
    world.jobs.heartbeat(&grant, None).unwrap();
    world.pass_ms(30_000);
    assert_eq!(world.jobs.sweep().unwrap().looked_at, 0);
    world.pass_ms(2);
    assert_eq!(world.jobs.sweep().unwrap().retried, 1);
    world.jobs.complete(&world.claimed().grant, None).unwrap();
}

#[test]
fn a_record_that_is_no_job_stops_nobody() {
    let world = World::new();
    let strange = Fields::of([
        ("task_type", "t"),
        ("state", "running"),
        ("timeout_at", "1"),
        ("retry_count", "x"),
    ]);
    world.db.records().put("mainstay.state.tasks.t.x", &strange.unwrap(), None).unwrap();
    world.submit("a");
    world.claimed();
    world.pass_ms(30_001);
    let report = world.jobs.sweep().unwrap();
    assert_eq!((report.looked_at, report.retried, report.unreadable), (2, 1, 1));
    let strange = world.db.records().get("mainstay.state.tasks.t.x").unwrap().unwrap().fields;
    assert_eq!(strange.text("state"), Some("failed"), "by its state alone");
    assert!(strange.text("error").unwrap().contains("`retry_count`"));
    assert_eq!(world.jobs.sweep().unwrap(), SweepReport::default());
}

#[test]
fn a_sweeper_runs_until_it_is_stopped() {
    let world = World::new();
    world.submit("a");
    let grant = world.claimed().grant;
    world.pass_ms(30_001);
    let seen = world.db.revision();
    let sweeper = Sweeper::start(&world.jobs, Duration::from_millis(1)).unwrap();
    world.db.wait_for(seen + 1, Duration::from_secs(60)).unwrap();
    let stats = sweeper.stop();
    assert_eq!((stats.total.retried, stats.errors), (1, 0));
    assert_eq!(code(world.jobs.fail(&grant, "late", Retry::Now)), Code::Fenced);
}

/// Each sweep is reported with its jobs or its error, including a panic.
#[test]
fn a_sweeper_tells_of_each_sweep() {
    let world = World::new();
    world.jobs.submit(&job("last").max_retries(0)).unwrap();
    world.submit("again");
    world.claimed();
    world.claimed();
    world.pass_ms(30_001);
    let (tell, told) = std::sync::mpsc::channel();
    let jobs = world.jobs.clone();
    let mut turn = 0;
    let find = move || {
        turn += 1;
        match turn {
            1 => Ok(Vec::new()),
            2 => panic!("nothing is found"),
            3 => Err(mainstay::Error::new(Code::Closed, "not now")),
            _ => Ok(vec![jobs.clone()]),
        }
    };
    let hear = move |sweep: &mainstay_jobs::Sweep| {
        // After the receiver is dropped this panics, which must not stop the sweeper.
        tell.send(sweep.clone()).unwrap();
    };
    let sweeper = Sweeper::with_callback(Duration::from_millis(1), find, hear).unwrap();
    let panicked = told.recv().unwrap().result.unwrap_err();
    assert!(panicked.message().contains("nothing is found"), "{panicked}");
    assert_eq!(code(told.recv().unwrap().result), Code::Closed);
    let swept = told.recv().unwrap();
    assert_eq!(swept.result.unwrap().looked_at, 2);
    assert_eq!(swept.jobs, [(name("again"), State::Pending), (name("last"), State::Failed)]);
    assert!(told.recv().unwrap().jobs.is_empty(), "each is told once");
    drop(told);
    while sweeper.stats().errors < 3 {
        std::thread::yield_now();
    }
    assert!(sweeper.stop().last_error.is_some());
    assert_eq!(code(Sweeper::start(&world.jobs, Duration::ZERO).map(drop)), Code::InvalidArgument);
}

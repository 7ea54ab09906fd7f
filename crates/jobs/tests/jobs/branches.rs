use crate::tasks::Tasks;
use crate::world::{START_MS, World, code, job, name};
use mainstay::{At, Code, MergeStrategy};
use mainstay_jobs::{Grant, Jobs, Retry, ServedBranches, Settings, State};
use std::time::Duration;

fn served() -> World {
    World::with(Settings { serve: ServedBranches::AllBranches, ..Settings::default() })
}

fn fork(world: &World) -> Jobs {
    world.db.fork("try", "main", At::Latest).unwrap();
    world.jobs.on_branch("try").unwrap()
}

fn next(jobs: &Jobs) -> Option<Grant> {
    jobs.claim("t", "w", None).unwrap().map(|claimed| claimed.grant)
}

#[test]
fn jobs_are_staged_on_a_branch_and_claimed_on_main() {
    let world = World::new();
    world.submit("a");
    let tried = fork(&world);
    assert_eq!((tried.branch(), world.jobs.branch()), ("try", "main"));
    tried.submit(&job("b")).unwrap();
    tried.submit(&job("c").depends_on("b")).unwrap();
    tried.submit(&job("d")).unwrap();
    tried.cancel(&name("d")).unwrap();
    assert_eq!(tried.count("t", State::Pending).unwrap(), 2);
    let before = world.db.revision();
    let within = |jobs: &Jobs| {
        let mut t = world.db.branch("try").unwrap().begin().unwrap();
        code(jobs.on(&mut t).claim("t", "w", None))
    };
    assert_eq!(code(tried.claim("t", "w", None)), Code::Unsupported);
    assert_eq!(code(tried.claim_within("t", "w", None, Duration::ZERO)), Code::Unsupported);
    assert_eq!(code(tried.sweep()), Code::Unsupported);
    assert_eq!(within(&world.jobs), Code::Unsupported);
    assert_eq!(world.db.revision(), before);
    assert_eq!(world.jobs.get(&name("b")).unwrap(), None);
    world.db.merge("try", "main", MergeStrategy::Strict).unwrap();
    let done = [(); 3].map(|()| {
        let grant = world.claimed().grant;
        world.jobs.complete(&grant, None).unwrap();
        grant.name.id().to_owned()
    });
    assert_eq!(done, ["a", "b", "c"]);
    assert_eq!((world.next_id(), world.state("d")), (None, State::Cancelled));
    assert!(world.jobs.on_branch("none").is_err());
}

#[test]
fn what_a_branch_inherited_is_neither_claimed_nor_swept_there() {
    let world = served();
    for id in ["held", "a", "b"] {
        world.submit(id);
    }
    world.jobs.submit(&job("later").run_at_ms(START_MS + 1000)).unwrap();
    let held = world.claimed().grant;
    let tried = fork(&world);
    tried.submit(&job("own")).unwrap();
    tried.submit(&job("own-later").run_at_ms(START_MS + 1000)).unwrap();
    world.pass_ms(30_001);
    assert_eq!(next(&tried).unwrap().name, name("own"));
    assert_eq!(next(&tried).unwrap().name, name("own-later"));
    assert_eq!(next(&tried), None);
    assert_eq!(tried.sweep().unwrap().looked_at, 0);
    let state = |id| tried.get(&name(id)).unwrap().unwrap().state;
    assert_eq!((state("held"), state("a")), (State::Claimed, State::Pending));
    world.pass_ms(30_001);
    assert_eq!(tried.sweep().unwrap().retried, 2, "its own");
    for refused in [
        tried.heartbeat(&held, None),
        tried.step(&held, 1, None),
        tried.complete(&held, None),
        tried.fail(&held, "no", Retry::Now),
    ] {
        assert_eq!(code(refused), Code::Fenced);
    }
    assert_eq!(world.jobs.complete(&held, None).unwrap(), State::Completed);
    assert_eq!(
        [(); 4].map(|()| world.next_id()).map(Option::unwrap_or_default),
        ["a", "b", "later", ""]
    );
}

#[test]
fn what_was_done_before_the_fork_is_answered_there_too() {
    let world = served();
    world.submit("a");
    let grant = world.claimed().grant;
    world.jobs.complete(&grant, None).unwrap();
    assert_eq!(fork(&world).complete(&grant, None).unwrap(), State::Completed);
}

#[test]
fn a_branch_that_is_served_works_on_its_own_jobs() {
    let world = served();
    let tried = fork(&world);
    tried.submit(&job("a")).unwrap();
    let grant = next(&tried).unwrap();
    tried.complete(&grant, None).unwrap();
    assert_eq!(code(world.jobs.complete(&grant, None)), Code::Fenced, "no grant of main");
    world.db.merge("try", "main", MergeStrategy::Strict).unwrap();
    assert_eq!(world.state("a"), State::Completed);
}

#[test]
fn transactions_and_those_who_await_work_on_a_branch_too() {
    let world = served();
    world.submit("inherited");
    let tried = fork(&world);
    let mut t = world.db.branch("try").unwrap().begin().unwrap();
    // The branch of the transaction counts, not that of the handle.
    world.jobs.on(&mut t).submit(&job("a")).unwrap();
    t.commit().unwrap();
    assert_eq!(tried.count("t", State::Pending).unwrap(), 2);
    assert_eq!(world.jobs.count("t", State::Pending).unwrap(), 1);
    let awaited = mainstay::remote::wait(world.jobs.to_async().unwrap().on_branch("try")).unwrap();
    let mut tasks = Tasks::new();
    let wait = Duration::from_secs(3600);
    tasks.spawn(awaited.claim_within("t", "w", None, wait));
    let first = tasks.run_until(|ended| ended == 1).pop().unwrap().unwrap().unwrap();
    assert_eq!(first.grant.name, name("a"));
    tasks.spawn(awaited.claim_within("t", "w", None, wait));
    tasks.run_until(|_| world.jobs.stats().claimed_nothing == 1);
    world.submit("main");
    tried.submit(&job("b")).unwrap();
    let second = tasks.run_until(|ended| ended == 1).pop().unwrap().unwrap().unwrap();
    assert_eq!(second.grant.name, name("b"));
    assert_eq!(world.jobs.stats().claimed_nothing, 1, "nobody was called for what is inherited");
}

use crate::tasks::Tasks;
use crate::world::{World, code, job, name};
use mainstay::{At, Code, MergeStrategy};
use mainstay_jobs::State;
use std::time::Duration;

#[test]
fn a_branch_works_on_its_own_jobs_until_it_is_merged() {
    let world = World::new();
    world.submit("a");
    world.submit("b");
    world.db.fork("try", "main", At::Latest).unwrap();
    let tried = world.jobs.on_branch("try").unwrap();
    assert_eq!((tried.branch(), world.jobs.branch()), ("try", "main"));
    let grant = tried.claim("t", "w", None).unwrap().unwrap().grant;
    tried.submit(&job("c").depends_on("a")).unwrap();
    assert_eq!(grant.name, name("a"));
    assert_eq!(world.state("a"), State::Pending, "main has its own");
    assert_eq!(world.jobs.get(&name("c")).unwrap(), None);
    tried.complete(&grant, None).unwrap();
    assert_eq!(code(world.jobs.complete(&grant, None)), Code::Fenced, "no grant of main");
    world.db.merge("try", "main", MergeStrategy::Strict).unwrap();
    assert_eq!((world.state("a"), world.state("c")), (State::Completed, State::Pending));
    assert_eq!(world.jobs.count("t", State::Pending).unwrap(), 2);
    assert!(world.jobs.on_branch("none").is_err());
}

#[test]
fn transactions_and_those_who_await_work_on_a_branch_too() {
    let world = World::new();
    world.db.fork("try", "main", At::Latest).unwrap();
    let tried = world.jobs.on_branch("try").unwrap();
    let mut t = world.db.branch("try").unwrap().begin().unwrap();
    // The transaction decides, whatever branch the handle is on.
    world.jobs.on(&mut t).submit(&job("a")).unwrap();
    t.commit().unwrap();
    assert_eq!(tried.count("t", State::Pending).unwrap(), 1);
    assert_eq!(world.jobs.count("t", State::Pending).unwrap(), 0);
    let awaited = mainstay::remote::wait(world.jobs.to_async().unwrap().on_branch("try")).unwrap();
    let mut tasks = Tasks::new();
    let wait = Duration::from_secs(3600);
    tasks.spawn(awaited.claim_within("t", "w", None, wait));
    let first = tasks.run_until(|ended| ended == 1).pop().unwrap().unwrap().unwrap();
    assert_eq!(first.grant.name, name("a"));
    tasks.spawn(awaited.claim_within("t", "w", None, wait));
    tasks.run_until(|_| world.jobs.figures().claimed_nothing == 1);
    world.submit("main");
    tried.submit(&job("b")).unwrap();
    let second = tasks.run_until(|ended| ended == 1).pop().unwrap().unwrap().unwrap();
    assert_eq!(second.grant.name, name("b"));
}

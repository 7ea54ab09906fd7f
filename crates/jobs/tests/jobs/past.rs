use crate::world::{World, code, name};
use mainstay::{At, Code};
use mainstay_jobs::{JobStats, Retry, State, SweepReport};

#[test]
fn jobs_are_seen_as_they_were() {
    let world = World::new();
    ["a", "b"].iter().for_each(|id| world.submit(id));
    let submitted = At::Revision(world.db.revision());
    let grant = world.claimed().grant;
    let claimed = At::Revision(world.db.revision());
    world.jobs.complete(&grant, None).unwrap();
    let jobs = &world.jobs;
    let counts = |state| [submitted, claimed].map(|at| jobs.count_at("t", state, at).unwrap());
    assert_eq!(counts(State::Pending), [2, 1]);
    assert_eq!(counts(State::Claimed), [0, 1]);
    assert_eq!(counts(State::Completed), [0, 0]);
    let page = jobs.list_at("t", Some(State::Pending), None, 1, submitted).unwrap();
    assert_eq!((page.jobs[0].name.id(), page.next.as_deref()), ("a", Some("a")));
    let page = jobs.list_at("t", Some(State::Pending), Some("a"), 9, submitted).unwrap();
    assert_eq!((page.jobs[0].name.id(), page.next), ("b", None));
    assert_eq!(jobs.list_at("t", None, None, 9, At::Latest).unwrap().jobs.len(), 2);
    let awaited = jobs.to_async().unwrap();
    let then = mainstay::remote::wait(awaited.count_at("t", State::Pending, submitted)).unwrap();
    assert_eq!(then, 2);
}

#[test]
fn the_history_of_a_job_says_who_had_it_when() {
    let world = World::new();
    world.submit("a");
    world.pass_ms(5);
    let grant = world.claimed().grant;
    world.pass_ms(5);
    world.jobs.fail(&grant, "no", Retry::Now).unwrap();
    let versions = world.jobs.history(&name("a"), 10, None).unwrap();
    let seen: Vec<_> = versions.iter().map(|one| (one.state().unwrap(), one.worker())).collect();
    use State::{Claimed, Pending};
    assert_eq!(seen, [(Pending, None), (Claimed, Some("w")), (Pending, None)]);
    assert_eq!(versions[1].revision, grant.token);
    assert!(versions[0].stamp >= versions[1].stamp + 5000);
    assert_eq!(world.jobs.history(&name("a"), 10, Some(2)).unwrap(), versions[2..]);
    assert_eq!(versions[0].job.as_ref(), world.jobs.get(&name("a")).unwrap().as_ref());
}

#[test]
fn figures_say_what_was_done() {
    let world = World::new();
    ["a", "b", "c", "d"].iter().for_each(|id| world.submit(id));
    let jobs = &world.jobs;
    let [done, failed, again, silent] = [(); 4].map(|()| world.claimed().grant);
    assert_eq!(world.claim(), None);
    jobs.step(&done, 1, None).unwrap();
    jobs.complete(&done, None).unwrap();
    jobs.complete(&done, None).unwrap();
    jobs.fail(&failed, "no", Retry::Never).unwrap();
    jobs.fail(&again, "no", Retry::Now).unwrap();
    jobs.retry(&failed.name).unwrap();
    jobs.cancel(&failed.name).unwrap();
    world.pass_ms(30_001);
    jobs.sweep().unwrap();
    assert_eq!(code(jobs.heartbeat(&silent, None)), Code::Fenced);
    let lease = std::time::Duration::from_secs(1);
    let locks = jobs.locks();
    let token = locks.take("l", "o", lease).unwrap().unwrap();
    locks.take("l", "o", lease).unwrap();
    assert_eq!(code(locks.renew("l", token + 1, lease)), Code::Fenced);
    let swept = SweepReport { looked_at: 1, retried: 1, ..SweepReport::default() };
    let expected = JobStats {
        submitted: 4,
        claimed: 4,
        claimed_nothing: 1,
        beats: 1,
        completed: 1,
        failed: 1,
        failed_once: 1,
        cancelled: 1,
        retried: 1,
        deleted: 0,
        fenced: 2,
        locked: 1,
        sweeps: 1,
        swept,
    };
    assert_eq!(jobs.stats(), expected);
    assert_eq!(jobs.to_async().unwrap().stats(), expected, "they are shared");
}

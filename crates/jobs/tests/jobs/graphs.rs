use crate::world::{World, code, job, name};
use mainstay::Code;
use mainstay_jobs::{State, Submission};

fn refused(world: &World, graph: &[Submission]) -> Code {
    let before = world.db.revision();
    let code = code(world.jobs.submit_all(graph));
    assert_eq!(world.db.revision(), before, "nothing is written");
    code
}

#[test]
fn graphs_that_make_no_sense_are_refused_each_with_its_own_error() {
    let world = World::new();
    assert_eq!(refused(&world, &[]), Code::EmptyGraph);
    assert_eq!(refused(&world, &[job("a").depends_on("a")]), Code::SelfDependency);
    assert_eq!(refused(&world, &[job("a").depends_on("x")]), Code::UnknownDependency);
    assert_eq!(refused(&world, &[job("a"), job("a")]), Code::JobExists);
    let twice = job("b").depends_on("a").depends_on_job("t", "a");
    assert_eq!(refused(&world, &[job("a"), twice]), Code::DuplicateDependency);
    let circle = [
        job("free"),
        job("a").depends_on("c").depends_on("free"),
        job("b").depends_on("a"),
        job("c").depends_on("b"),
    ];
    assert_eq!(refused(&world, &circle), Code::DependencyCycle);
    world.submit("a");
    assert_eq!(refused(&world, &[job("b"), job("a").depends_on("b")]), Code::JobExists);
}

#[test]
fn a_job_is_pending_when_the_last_it_depends_on_is_completed() {
    let world = World::new();
    let graph =
        [job("d").depends_on("b").depends_on("c"), job("b").depends_on("a"), job("a"), job("c")];
    let states = world.jobs.submit_all(&graph).unwrap();
    assert_eq!(states, [State::Blocked, State::Blocked, State::Pending, State::Pending]);
    let finish = |id: &str| {
        let claimed = world.claimed();
        assert_eq!(claimed.grant.name, name(id));
        world.jobs.complete(&claimed.grant, None).unwrap();
        world.jobs.complete(&claimed.grant, None).unwrap();
        world.db.revision()
    };
    finish("a");
    assert_eq!((world.state("b"), world.state("d")), (State::Pending, State::Blocked));
    finish("b");
    assert_eq!(world.state("d"), State::Blocked, "one completion counts once");
    let revision = finish("c");
    let entry = &world.jobs.history(&name("d"), 1, None).unwrap()[0];
    assert_eq!(
        (world.state("d"), entry.revision),
        (State::Pending, revision),
        "in one transaction"
    );
}

#[test]
fn a_dependency_that_is_there_counts_unless_it_is_completed() {
    let world = World::new();
    world.submit("done");
    world.jobs.complete(&world.claimed().grant, None).unwrap();
    assert_eq!(world.jobs.submit(&job("x").depends_on("done")).unwrap(), State::Pending);
    world.jobs.submit(&Submission::new("other", "open")).unwrap();
    let both = job("y").depends_on("done").depends_on_job("other", "open");
    assert_eq!(world.jobs.submit(&both).unwrap(), State::Blocked);
    let grant = world.jobs.claim("other", "w", None).unwrap().unwrap().grant;
    world.jobs.complete(&grant, None).unwrap();
    assert_eq!(world.state("y"), State::Pending);
}

#[test]
fn what_depends_on_a_failure_stays_blocked_until_that_is_retried() {
    let world = World::new();
    let graph = [job("a").max_retries(0), job("b").depends_on("a"), job("c").depends_on("a")];
    world.jobs.submit_all(&graph).unwrap();
    world.jobs.fail(&world.claimed().grant, "no", mainstay_jobs::Retry::Now).unwrap();
    assert_eq!((world.state("a"), world.state("b")), (State::Failed, State::Blocked));
    world.jobs.cancel(&name("c")).unwrap();
    assert_eq!(world.jobs.retry(&name("c")).unwrap(), State::Blocked);
    world.jobs.cancel(&name("c")).unwrap();
    assert_eq!(world.jobs.retry(&name("a")).unwrap(), State::Pending);
    world.jobs.complete(&world.claimed().grant, None).unwrap();
    assert_eq!((world.state("b"), world.state("c")), (State::Pending, State::Cancelled));
    assert_eq!(world.jobs.retry(&name("c")).unwrap(), State::Pending);
}

/// A graph may be larger than the read set of an open transaction.
#[test]
fn large_graphs_are_submitted_whole_and_too_large_ones_refused() {
    let world = World::new();
    world.submit("root");
    let mut graph: Vec<_> =
        (1..12_000).map(|n| job(&format!("j{n}")).depends_on(&format!("j{}", n - 1))).collect();
    graph.push(job("j0").depends_on("root"));
    let states = world.jobs.submit_all(&graph).unwrap();
    assert_eq!((states.len(), states[0]), (12_000, State::Blocked));
    let wide: Vec<_> = (0..10_001).map(|n| job(&format!("w{n}")).depends_on("root")).collect();
    assert_eq!(refused(&world, &wide), Code::TransactionTooLarge);
    let many: Vec<_> = (0..100_001).map(|n| job(&format!("m{n}"))).collect();
    assert_eq!(refused(&world, &many), Code::TransactionTooLarge);
}

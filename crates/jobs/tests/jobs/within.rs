use crate::world::{START_MS, World, code, job, name};
use mainstay::Code;
use mainstay_jobs::{Grant, Retry, State, UncommittedToken};
use std::time::Duration;

const LEASE: Duration = Duration::from_millis(100);

#[test]
fn a_claim_and_a_cell_are_one_transaction() {
    let world = World::new();
    world.submit("a");
    let mut t = world.db.begin().unwrap();
    let claimed = world.jobs.on(&mut t).claim("t", "w", Some(LEASE)).unwrap().unwrap();
    assert_eq!(claimed.job.token, Some(0), "not known yet");
    t.set("note", "claimed").unwrap();
    assert_eq!(world.state("a"), State::Pending, "nothing before the commit");
    let claimed = claimed.at(t.commit().unwrap().revision);
    assert_eq!(world.jobs.get(&name("a")).unwrap().unwrap(), claimed.job);
    let note = world.db.cells().get_versioned("note").unwrap().unwrap();
    assert_eq!(note.revision, claimed.grant.token, "one transaction");
    assert_eq!(world.jobs.complete(&claimed.grant, None).unwrap(), State::Completed);
}

#[test]
fn completing_frees_dependents_with_everything_else_or_nothing() {
    let world = World::new();
    world.jobs.submit_all(&[job("a"), job("b").depends_on("a")]).unwrap();
    let grant = world.claimed().grant;
    for commits in [false, true] {
        let mut t = world.db.begin().unwrap();
        assert_eq!(world.jobs.on(&mut t).complete(&grant, Some(b"x")).unwrap(), State::Completed);
        let inside = world.jobs.on(&mut t).get(&name("b")).unwrap().unwrap();
        assert_eq!(inside.state, State::Pending, "the transaction sees its own writes");
        assert_eq!(world.jobs.on(&mut t).count("t", State::Pending).unwrap(), 1);
        t.incr("done", 1).unwrap();
        if commits {
            drop(t.commit().unwrap())
        } else {
            t.rollback()
        }
        let states = [world.state("a"), world.state("b")];
        let expected = if commits {
            [State::Completed, State::Pending]
        } else {
            [State::Claimed, State::Blocked]
        };
        assert_eq!(states, expected);
        assert_eq!(world.db.cells().get("done").unwrap().is_some(), commits);
    }
}

#[test]
fn whoever_lost_its_job_is_fenced_at_once() {
    let world = World::new();
    world.submit("a");
    let old = world.claimed().grant;
    world.jobs.fail(&old, "no", Retry::Now).unwrap();
    let new = world.claimed().grant;
    let mut t = world.db.begin().unwrap();
    t.set("note", 1).unwrap();
    assert_eq!(code(world.jobs.on(&mut t).heartbeat(&old, None)), Code::Fenced);
    assert_eq!(code(world.jobs.on(&mut t).step(&old, 1, None)), Code::Fenced);
    assert_eq!(code(world.jobs.on(&mut t).complete(&old, None)), Code::Fenced);
    world.jobs.on(&mut t).submit(&job("b")).unwrap();
    world.jobs.on(&mut t).claim("t", "w", None).unwrap().unwrap();
    let none = Grant { name: name("b"), token: 0 };
    assert_eq!(code(world.jobs.on(&mut t).complete(&none, None)), Code::Fenced, "no token yet");
    let repeated = world.jobs.on(&mut t).fail(&old, "no", Retry::Now);
    assert_eq!(repeated.unwrap(), State::Pending, "that is what it did before");
    world.jobs.on(&mut t).step(&new, 1, None).unwrap();
    t.commit().unwrap();
    assert_eq!(world.state("a"), State::Running, "what was refused left nothing");
}

/// The token is checked again when the transaction commits.
#[test]
fn whoever_loses_its_job_before_the_commit_writes_nothing() {
    let world = World::new();
    world.submit("a");
    let grant = world.claimed().grant;
    let mut t = world.db.begin().unwrap();
    world.jobs.on(&mut t).complete(&grant, None).unwrap();
    t.set("note", 1).unwrap();
    world.jobs.cancel(&name("a")).unwrap();
    assert_eq!(code(t.commit()), Code::Conflict);
    assert_eq!(world.db.cells().get("note").unwrap(), None);
    assert_eq!(world.state("a"), State::Cancelled);
}

#[test]
fn of_two_transactions_that_claim_one_commits() {
    let world = World::new();
    world.submit("a");
    let [mut first, mut second] = [(); 2].map(|()| world.db.begin().unwrap());
    for t in [&mut first, &mut second] {
        assert!(world.jobs.on(t).claim("t", "w", None).unwrap().is_some());
    }
    first.commit().unwrap();
    assert_eq!(code(second.commit()), Code::Conflict);
}

#[test]
fn a_job_that_is_claimed_has_its_own_lease_and_comes_when_it_is_due() {
    let world = World::new();
    world.jobs.submit(&job("own").timeout_ms(50)).unwrap();
    world.jobs.submit(&job("due").run_at_ms(START_MS + 10).priority(1)).unwrap();
    world.pass_ms(10);
    let mut t = world.db.begin().unwrap();
    let jobs = world.jobs.on(&mut t);
    assert_eq!(jobs.claim("t", "w", None).unwrap().unwrap().job.name, name("due"));
    assert_eq!(jobs.claim("t", "w", None).unwrap().unwrap().job.name, name("own"));
    assert!(jobs.claim("t", "w", None).unwrap().is_none());
    t.commit().unwrap();
    let own = world.jobs.get(&name("own")).unwrap().unwrap();
    assert_eq!(own.timeout_at, Some(START_MS + 60));
}

#[test]
fn what_is_refused_leaves_the_transaction_as_it_was() {
    let world = World::new();
    world.submit("b");
    let mut t = world.db.begin().unwrap();
    let graph = [job("a"), job("b"), job("c").depends_on("a")];
    assert_eq!(code(world.jobs.on(&mut t).submit_all(&graph)), Code::JobExists);
    let unknown = [job("a"), job("c").depends_on("x")];
    assert_eq!(code(world.jobs.on(&mut t).submit_all(&unknown)), Code::UnknownDependency);
    assert_eq!(code(world.jobs.on(&mut t).retry(&name("b"))), Code::IllegalTransition);
    assert!(!t.has_steps());
    world.jobs.on(&mut t).submit_all(&[job("a"), job("c").depends_on("a")]).unwrap();
    assert_eq!(code(world.jobs.on(&mut t).submit(&job("a"))), Code::JobExists, "its own");
    t.commit().unwrap();
    assert_eq!(world.state("c"), State::Blocked);
}

#[test]
fn locks_are_taken_and_freed_with_everything_else() {
    let world = World::new();
    let locks = world.jobs.locks();
    let mut t = world.db.begin().unwrap();
    assert_eq!(
        locks.on(&mut t).take("l", "a", LEASE).unwrap(),
        Some(UncommittedToken::CommitRevision)
    );
    assert_eq!(locks.on(&mut t).take("l", "b", LEASE).unwrap(), None);
    assert_eq!(locks.on(&mut t).holder("l").unwrap().unwrap().owner, "a");
    assert_eq!(locks.holder("l").unwrap(), None, "nothing before the commit");
    assert_eq!(code(locks.on(&mut t).free("l", 0)), Code::Fenced, "0 is no token");
    let token = UncommittedToken::CommitRevision.at(t.commit().unwrap().revision);
    assert_eq!(locks.holder("l").unwrap().unwrap().token, token);
    let mut t = world.db.begin().unwrap();
    assert_eq!(
        locks.on(&mut t).take("l", "a", LEASE).unwrap(),
        Some(UncommittedToken::Existing(token))
    );
    locks.on(&mut t).renew("l", token, LEASE).unwrap();
    assert!(!locks.on(&mut t).free("l", token + 1).unwrap());
    assert!(locks.on(&mut t).free("l", token).unwrap());
    t.commit().unwrap();
    assert_eq!(locks.holder("l").unwrap(), None);
}

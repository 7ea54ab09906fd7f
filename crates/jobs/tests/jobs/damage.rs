//! Damaged records, and jobs resubmitted after deletion: no other job is affected.

use crate::handles::HANDLE_KINDS;
use crate::world::{World, code, job, name};
use mainstay::{Code, Fields};
use mainstay_jobs::{Retry, State};

fn damage(world: &World, id: &str, field: &str) {
    world.db.records().set_field(&world.jobs.key(&name(id)), field, "x").unwrap();
}

fn delete(world: &World, id: &str) {
    assert!(world.db.records().delete(&world.jobs.key(&name(id))).unwrap());
}

fn complete_next(world: &World) -> String {
    let grant = world.claimed().grant;
    world.jobs.complete(&grant, None).unwrap();
    grant.name.id().to_owned()
}

#[test]
fn a_dependent_that_was_deleted_and_submitted_again_counts_each_dependency_once() {
    let world = World::new();
    let c = job("c").depends_on("a").depends_on("b");
    world.jobs.submit_all(&[job("a"), job("b"), c.clone()]).unwrap();
    delete(&world, "c");
    assert_eq!(world.jobs.submit(&c).unwrap(), State::Blocked);
    let a = world.jobs.get(&name("a")).unwrap().unwrap();
    assert_eq!(a.dependents, [name("c")], "it stands once");
    assert_eq!(complete_next(&world), "a");
    assert_eq!(world.state("c"), State::Blocked);
    assert_eq!(complete_next(&world), "b");
    assert_eq!(world.state("c"), State::Pending);
}

#[test]
fn a_dependent_that_no_longer_waits_is_left_as_it_is() {
    let world = World::new();
    world.jobs.submit_all(&[job("a"), job("b"), job("c").depends_on("a")]).unwrap();
    delete(&world, "c");
    // It depends on another job now.
    world.jobs.submit(&job("c").depends_on("b")).unwrap();
    assert_eq!(complete_next(&world), "a");
    assert_eq!(world.state("c"), State::Blocked);
    delete(&world, "c");
    assert_eq!(complete_next(&world), "b");
    assert_eq!(world.jobs.get(&name("c")).unwrap(), None, "nothing is made of what is gone");
}

#[test]
fn a_retry_counts_anew_what_is_waited_for() {
    for handle_kind in HANDLE_KINDS {
        let world = World::new();
        let jobs = handle_kind.of(&world.jobs);
        world.jobs.submit_all(&[job("a"), job("b").depends_on("a")]).unwrap();
        jobs.cancel(&name("b")).unwrap();
        // The new job does not know its dependents.
        delete(&world, "a");
        assert_eq!(code(jobs.retry(&name("b"))), Code::UnknownDependency, "{handle_kind:?}");
        world.submit("a");
        assert_eq!(jobs.retry(&name("b")).unwrap(), State::Blocked, "{handle_kind:?}");
        assert_eq!(complete_next(&world), "a");
        assert_eq!(world.state("b"), State::Pending, "{handle_kind:?}");
        jobs.cancel(&name("b")).unwrap();
        delete(&world, "a");
        assert_eq!(
            jobs.retry(&name("b")).unwrap(),
            State::Pending,
            "what was completed may be gone"
        );
    }
}

#[test]
fn a_damaged_dependent_keeps_nobody_from_being_completed() {
    for handle_kind in HANDLE_KINDS {
        let world = World::new();
        let graph = [job("a"), job("b").depends_on("a"), job("c").depends_on("a")];
        world.jobs.submit_all(&graph).unwrap();
        damage(&world, "b", "blocked_by");
        let grant = world.claimed().grant;
        assert_eq!(
            handle_kind.of(&world.jobs).complete(&grant).unwrap(),
            State::Completed,
            "{handle_kind:?}"
        );
        assert_eq!(world.state("c"), State::Pending, "{handle_kind:?}");
        assert_eq!(world.jobs.cancel(&name("b")).unwrap(), State::Cancelled);
    }
}

#[test]
fn lists_and_histories_leave_out_what_cannot_be_read_and_say_so() {
    let world = World::new();
    ["a", "b", "c"].iter().for_each(|id| world.submit(id));
    damage(&world, "b", "retry_count");
    let page = world.jobs.list("t", Some(State::Pending), None, 2).unwrap();
    let ids: Vec<_> = page.jobs.iter().map(|job| job.name.id()).collect();
    assert_eq!((ids, page.unreadable, page.next.as_deref()), (vec!["a"], 1, Some("b")));
    let page = world.jobs.list("t", Some(State::Pending), Some("b"), 2).unwrap();
    assert_eq!((page.jobs.len(), page.unreadable), (1, 0));
    let versions = world.jobs.history(&name("b"), 9, None).unwrap();
    let seen: Vec<_> = versions.iter().map(|one| (one.state(), one.is_unreadable)).collect();
    assert_eq!(seen, [(None, true), (Some(State::Pending), false)]);
}

/// The unreadable job is failed, and the claim gets the next one.
#[test]
fn whoever_claims_passes_over_what_cannot_be_read() {
    for handle_kind in HANDLE_KINDS {
        let world = World::new();
        ["a", "b"].iter().for_each(|id| world.submit(id));
        damage(&world, "a", "max_retries");
        let strange = [("task_type", "t"), ("state", "pending"), ("rank", "0")];
        let key = "mainstay.state.tasks.t.no name";
        world.db.records().put(key, &Fields::of(strange).unwrap(), None).unwrap();
        let jobs = handle_kind.of(&world.jobs);
        let claimed = jobs.claim("t", "w").unwrap().expect("the one that is whole");
        assert_eq!(claimed.grant.name, name("b"), "{handle_kind:?}");
        assert_eq!(jobs.fail(&claimed.grant, "no", Retry::Never).unwrap(), State::Failed);
        for key in [key, &world.jobs.key(&name("a"))] {
            let fields = world.db.records().get(key).unwrap().unwrap().fields;
            assert_eq!(fields.text("state"), Some("failed"), "{handle_kind:?}");
            assert!(fields.text("error").unwrap().contains("cannot be read"), "{handle_kind:?}");
            assert_eq!(fields.text("timeout_at"), None);
        }
        assert_eq!(jobs.claim("t", "w").unwrap(), None);
    }
}

#[test]
fn a_long_error_is_cut() {
    let world = World::new();
    world.submit("a");
    let long = "ä".repeat(10_000);
    world.jobs.fail(&world.claimed().grant, &long, Retry::Never).unwrap();
    let kept = world.jobs.get(&name("a")).unwrap().unwrap().error.unwrap();
    assert!(kept.len() <= 4096 && kept.ends_with("ä […]"), "{} bytes", kept.len());
}

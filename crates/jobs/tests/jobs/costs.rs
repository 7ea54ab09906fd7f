use crate::handles::HANDLE_KINDS;
use crate::world::{World, job};
use mainstay_jobs::State;

/// In the common case each operation is one transaction, and so one fsync of the log.
#[test]
fn an_operation_takes_one_revision() {
    for handle_kind in HANDLE_KINDS {
        let world = World::new();
        let jobs = handle_kind.of(&world.jobs);
        let cost = |run: &dyn Fn() -> State| {
            let before = world.db.revision();
            run();
            world.db.revision() - before
        };
        assert_eq!(cost(&|| jobs.submit(&job("a")).unwrap()), 1, "{handle_kind:?}");
        assert_eq!(cost(&|| jobs.submit(&job("b").depends_on("a")).unwrap()), 1, "{handle_kind:?}");
        let before = world.db.revision();
        let grant = jobs.claim("t", "w").unwrap().unwrap().grant;
        assert_eq!(world.db.revision(), before + 1, "{handle_kind:?}");
        assert_eq!(cost(&|| jobs.step(&grant, 1).unwrap()), 1, "{handle_kind:?}");
        assert_eq!(cost(&|| jobs.heartbeat(&grant).unwrap()), 1, "{handle_kind:?}");
        assert_eq!(cost(&|| jobs.complete(&grant).unwrap()), 1, "{handle_kind:?}");
        assert_eq!(cost(&|| jobs.complete(&grant).unwrap()), 0, "it is done already");
        let before = world.db.revision();
        assert_eq!(jobs.claim("x", "w").unwrap(), None);
        assert_eq!(world.db.revision(), before, "{handle_kind:?}");
    }
}

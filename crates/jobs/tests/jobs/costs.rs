use crate::faces::FACES;
use crate::world::{World, job};
use mainstay_jobs::State;

/// In the common case each operation is one transaction, and so one fsync of the log.
#[test]
fn an_operation_takes_one_revision() {
    for face in FACES {
        let world = World::new();
        let jobs = face.of(&world.jobs);
        let cost = |run: &dyn Fn() -> State| {
            let before = world.db.revision();
            run();
            world.db.revision() - before
        };
        assert_eq!(cost(&|| jobs.submit(&job("a")).unwrap()), 1, "{face:?}");
        assert_eq!(cost(&|| jobs.submit(&job("b").depends_on("a")).unwrap()), 1, "{face:?}");
        let before = world.db.revision();
        let grant = jobs.claim("t", "w").unwrap().unwrap().grant;
        assert_eq!(world.db.revision(), before + 1, "{face:?}");
        assert_eq!(cost(&|| jobs.step(&grant, 1).unwrap()), 1, "{face:?}");
        assert_eq!(cost(&|| jobs.heartbeat(&grant).unwrap()), 1, "{face:?}");
        assert_eq!(cost(&|| jobs.complete(&grant).unwrap()), 1, "{face:?}");
        assert_eq!(cost(&|| jobs.complete(&grant).unwrap()), 0, "it is done already");
        let before = world.db.revision();
        assert_eq!(jobs.claim("x", "w").unwrap(), None);
        assert_eq!(world.db.revision(), before, "{face:?}");
    }
}

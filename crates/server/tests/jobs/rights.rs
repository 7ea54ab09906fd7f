//! A user needs write access to the records behind jobs in order to work on those jobs.

use crate::speaker::{claim, parts, text};
use crate::world::{World, user};

fn world() -> World {
    World::with(|settings| {
        settings.users.extend([
            user("mailer", &["records"], &["mainstay.state.tasks.email."]),
            user("watcher", &["records:read"], &["mainstay.state."]),
            user("janitor", &["records"], &["mainstay.state.tasks."]),
            user("locker", &["records"], &["mainstay.state.locks.mail"]),
        ]);
    })
}

#[test]
fn a_user_works_on_the_types_whose_keys_it_has() {
    let world = world();
    let mut mailer = world.client("mailer");
    assert_eq!(mailer.line("JOB.SUBMIT email 1"), text("pending"));
    let got = claim(&mut mailer, "JOB.CLAIM email WORKER w");
    assert_eq!(mailer.line(&format!("JOB.DONE email 1 {}", got.token)), text("completed"));
    assert_eq!(parts(&mailer.line("JOB.LIST email"))[1], "1");
    world.client("default").line("JOB.SUBMIT report 1");
    let revision = world.db.revision();
    for line in [
        "JOB.SUBMIT report 2",
        "JOB.SUBMIT email 2 DEPENDS report/1",
        "JOB.CLAIM report WORKER w",
        "JOB.BEAT report 1 5",
        "JOB.STEP report 1 5 1",
        "JOB.DONE report 1 5",
        "JOB.FAIL report 1 5 no",
        "JOB.CANCEL report 1",
        "JOB.RETRY report 1",
        "JOB.GET report 1",
        "JOB.LIST report",
        "JOB.COUNT report",
        "JOB.HISTORY report 1",
        "JOB.DATA report 1",
        "JOB.RESULT report 1",
        "JOB.SWEEP",
        "LOCK.TAKE mail OWNER o LEASE 5",
        "LOCK.GET mail",
    ] {
        let reply = mailer.line(line);
        assert!(reply.starts_with("-NOPERM User mailer "), "{line}: {reply}");
    }
    mailer.line("MULTI");
    assert!(mailer.line("JOB.CANCEL report 1").starts_with("-NOPERM"));
    assert!(mailer.line("EXEC").starts_with("-EXECABORT"));
    mailer.line("TXN.BEGIN");
    assert!(mailer.line("JOB.CANCEL report 1").starts_with("-NOPERM"));
    mailer.line("TXN.ROLLBACK");
    assert_eq!(world.db.revision(), revision);
}

#[test]
fn reading_jobs_is_not_working_on_them() {
    let world = world();
    world.client("default").line("JOB.SUBMIT email 1");
    let mut watcher = world.client("watcher");
    assert_eq!(watcher.line("JOB.COUNT email STATE pending"), r":1\r\n");
    assert!(watcher.line("JOB.GET email 1").contains("pending"));
    for line in ["JOB.CLAIM email WORKER w", "JOB.CANCEL email 1", "JOB.SWEEP"] {
        assert!(watcher.line(line).starts_with("-NOPERM User watcher "), "{line}");
    }
    let (status, _) = world.ask(Some("watcher"), "GET", "/v1/jobs/email/1", "");
    assert_eq!(status, 200);
    let body = r#"{"worker":"w"}"#;
    let (status, _) = world.ask(Some("watcher"), "POST", "/v1/job-claims/email", body);
    assert_eq!(status, 403);
}

#[test]
fn sweeping_takes_all_jobs_and_a_lock_is_its_own_key() {
    let world = world();
    assert_eq!(world.client("janitor").line("JOB.SWEEP"), r"*2\r\n:0\r\n:0\r\n");
    let mut locker = world.client("locker");
    assert!(locker.line("LOCK.TAKE mail OWNER o LEASE 60000").starts_with(':'));
    assert!(locker.line("LOCK.TAKE other OWNER o LEASE 60000").starts_with("-NOPERM"));
    let ask = |user, path: &str| world.ask(Some(user), "GET", path, "").0;
    assert_eq!((ask("locker", "/v1/locks/mail"), ask("locker", "/v1/locks/other")), (200, 403));
    assert_eq!((ask("mailer", "/v1/locks/mail"), ask("mailer", "/v1/jobs/report")), (403, 403));
}

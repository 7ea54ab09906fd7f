//! The audit log of requests by the remote client.

use crate::limited::connect;
use crate::world::{PASSWORD, World};
use mainstay::{At, BranchCommand, CellCommand, Code, MergeStrategy, Name, Transaction, remote};

/// Returns user, command, names and outcome of each line, without logins.
fn lines(world: &World) -> Vec<String> {
    let text = |line: &serde_json::Value, name: &str| line[name].as_str().unwrap_or("-").to_owned();
    let about = |line: &serde_json::Value| {
        let names = line["about"].as_array().unwrap().iter();
        names.map(|name| name.as_str().unwrap()).collect::<Vec<_>>().join(",")
    };
    let audit = world.audit();
    let others = audit.iter().filter(|line| line["command"] != "auth");
    let shown = |line: &serde_json::Value| {
        let [user, command, outcome] = ["user", "command", "outcome"].map(|name| text(line, name));
        [user, command, about(line), outcome].join(" ")
    };
    others.map(shown).collect()
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

#[test]
fn administrative_commands_are_recorded_and_no_others() {
    let world = World::new();
    let db = connect(&world, "default");
    db.cells().set("a", "secret-value").unwrap();
    db.fork("trial", "main", At::Latest).unwrap();
    assert_eq!(db.fork("trial", "main", At::Latest).unwrap_err().code(), Code::BranchExists);
    db.rename_branch("trial", "attempt").unwrap();
    db.merge("attempt", "main", MergeStrategy::Strict).unwrap();
    db.tag("v1", "main", At::Latest).unwrap();
    let untag = Transaction::new().step(BranchCommand::Untag { name: name("v1") });
    let not_alone = untag.clone().step(CellCommand::set(name("b"), "secret-value"));
    assert_eq!(db.execute(not_alone).unwrap_err().code(), Code::InvalidArgument);
    db.execute(untag).unwrap();
    db.submit(Transaction::new().step(BranchCommand::Delete { name: name("attempt") }))
        .wait()
        .unwrap();
    db.sweep().unwrap();
    db.trim().unwrap();
    db.confirm_clock();
    db.export_hash("main").unwrap();
    db.export_hash("nosuch").unwrap_err();
    db.begin().unwrap().commit().unwrap();
    db.try_branches().unwrap();
    db.diff("main", "main").unwrap();
    let wanted = [
        "default branch.fork trial,main done",
        "default branch.fork trial,main failed",
        "default branch.rename trial,attempt done",
        "default branch.merge attempt,main done",
        "default tag.set v1,main done",
        "default tag.del v1 failed",
        "default tag.del v1 done",
        "default branch.delete attempt done",
        "default sweep  done",
        "default trim  done",
        "default clock.confirm  done",
        "default export.hash main done",
        "default export.hash nosuch failed",
    ];
    assert_eq!(lines(&world), wanted);
    let text = std::fs::read_to_string(world.directory.path().join("audit.log")).unwrap();
    assert!(!text.contains("secret-value") && !text.contains(PASSWORD), "{text}");
}

#[test]
fn so_is_what_was_denied() {
    let world = World::new();
    let app = connect(&world, "app");
    app.fork("trial", "main", At::Latest).unwrap_err();
    let inside = |db: &mainstay::Database| {
        db.begin()?.run(BranchCommand::Create { name: name("trial") }).map(drop)
    };
    assert_eq!(inside(&app).unwrap_err().code(), Code::Forbidden);
    app.sweep().unwrap_err();
    app.trim().unwrap_err();
    app.confirm_clock();
    app.export_hash("main").unwrap_err();
    app.cells().get("other").unwrap_err();
    let wanted = [
        "app branch.fork trial,main denied",
        "app sweep  denied",
        "app trim  denied",
        "app clock.confirm  denied",
        "app export.hash main denied",
    ];
    assert_eq!(lines(&world), wanted);
}

#[test]
fn so_is_every_login() {
    let world = World::new();
    connect(&world, "app").cells().set("app:a", 1).unwrap();
    let options = remote::Options::new(&world.resp.to_string()).login("app", "wrong");
    options.connect().map(drop).unwrap_err();
    let audit = world.audit();
    let outcomes = audit.iter().map(|line| (line["user"].as_str(), line["outcome"].as_str()));
    let done = (Some("app"), Some("done"));
    let wrong = (Some("app"), Some("wrong"));
    assert_eq!(outcomes.collect::<Vec<_>>(), [done, done, wrong], "for reads, for writes, in vain");
}

//! `AUTH`, `HELLO … AUTH`, `RESET`: changing the user of a connection.

use crate::world::{PASSWORD, World};
use mainstay_server::resp::table;

const NOAUTH: &str = r"-NOAUTH Authentication required.\r\n";
const WRONG: &str = r"-WRONGPASS invalid username-password pair or user is disabled.\r\n";

#[test]
fn nothing_is_answered_before_authentication() {
    let world = World::new();
    let mut client = world.stranger();
    for spec in
        table::all().filter(|spec| !matches!(spec.name, "quit" | "hello" | "auth" | "reset"))
    {
        let mut words = vec![spec.name];
        words.resize(spec.arity.unsigned_abs() as usize, "x");
        assert_eq!(client.call(&words), NOAUTH, "{}", spec.name);
    }
    for line in ["GET", "FOO bar", "SET a 1 2 3 4"] {
        assert_eq!(client.line(line), NOAUTH, "{line}");
    }
    assert!(client.line("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    assert_eq!(client.line("RESET"), r"+RESET\r\n");
    assert_eq!(client.line("QUIT"), r"+OK\r\n");
}

#[test]
fn auth_and_hello_make_a_connection_a_user() {
    let world = World::new();
    let mut client = world.stranger();
    assert_eq!(client.call(&["AUTH", PASSWORD]), r"+OK\r\n");
    assert_eq!(client.line("ACL WHOAMI"), r"$7\r\ndefault\r\n");
    assert_eq!(client.call(&["AUTH", "app", PASSWORD]), r"+OK\r\n");
    assert_eq!(client.line("ACL WHOAMI"), r"$3\r\napp\r\n");
    assert!(client.line("CLIENT LIST").contains(" user=app "));
    assert_eq!(client.line("RESET"), r"+RESET\r\n");
    assert_eq!(client.line("PING"), NOAUTH);
    let hello = client.call(&["HELLO", "3", "AUTH", "reader", PASSWORD, "SETNAME", "me"]);
    assert!(hello.starts_with("%7"), "{hello}");
    assert!(client.line("CLIENT INFO").contains(" name=me db=0 branch=main user=reader resp=3"));
    assert!(world.client("default").line("ACL USERS").starts_with(r"*6\r\n$3\r\napp\r\n"));
}

#[test]
fn a_wrong_password_and_an_unknown_user_are_told_the_same() {
    let world = World::new();
    let mut client = world.stranger();
    assert_eq!(client.call(&["AUTH", "app", "wrong"]), WRONG);
    assert_eq!(client.call(&["AUTH", "nosuch", PASSWORD]), WRONG);
    assert_eq!(client.call(&["HELLO", "3", "AUTH", "app", "wrong"]), WRONG);
    assert_eq!(client.call(&["AUTH".as_bytes(), b"\xff", PASSWORD.as_bytes()]), WRONG);
    assert_eq!(client.line("PING"), NOAUTH);
    assert_eq!(client.call(&["AUTH", "app", PASSWORD]), r"+OK\r\n");
    // A cached password does not help with a wrong one.
    assert_eq!(client.call(&["AUTH", "app", "wrong"]), WRONG);
    assert_eq!(client.line("ACL WHOAMI"), r"$3\r\napp\r\n", "it stays who it was");
}

#[test]
fn too_many_wrong_passwords_close_the_connection() {
    let world = World::with(|settings| settings.failures_per_connection = 2);
    let mut client = world.stranger();
    assert_eq!(client.call(&["AUTH", "a"]), WRONG);
    client.send(&["AUTH", "b"]);
    client.send(&["AUTH", PASSWORD]);
    let last = client.receive();
    assert!(
        last.starts_with("-WRONGPASS") && last.contains("security.failures_per_connection"),
        "{last}"
    );
    assert_eq!(client.receive_or_end(), None, "nothing more is answered");
}

#[test]
fn what_stands_behind_auth_in_a_pipeline_runs_as_that_user() {
    let world = World::new();
    let mut client = world.stranger();
    for words in [vec!["GET", "app:a"], vec!["AUTH", "app", PASSWORD], vec!["SET", "app:a", "1"]] {
        client.send(&words);
    }
    client.send(&["AUTH", "reader", PASSWORD]);
    client.send(&["SET", "app:a", "2"]);
    client.send(&["GET", "app:a"]);
    let replies: Vec<String> = (0..6).map(|_| client.receive()).collect();
    assert_eq!([&replies[0], &replies[1], &replies[2]], [NOAUTH, r"+OK\r\n", r"+OK\r\n"]);
    assert_eq!(replies[3], r"+OK\r\n");
    assert!(replies[4].starts_with("-NOPERM User reader"), "{replies:?}");
    assert_eq!(replies[5], r"$1\r\n1\r\n");
}

#[test]
fn nobody_becomes_another_user_inside_a_transaction() {
    let world = World::new();
    let mut client = world.client("default");
    client.line("MULTI");
    assert!(
        client.call(&["AUTH", "app", PASSWORD]).starts_with("-ERR AUTH is not for inside MULTI")
    );
    assert!(client.line("EXEC").starts_with("-EXECABORT"));
    client.line("TXN.BEGIN");
    client.line("SET other 1");
    assert!(client.call(&["AUTH", "app", PASSWORD]).starts_with("-ERR a transaction is open"));
    assert_eq!(client.line("TXN.COMMIT"), r":1\r\n");
}

#[test]
fn becoming_another_user_ends_what_was_watched() {
    let world = World::new();
    let mut watcher = world.stranger();
    watcher.call(&["HELLO", "3", "AUTH", "default", PASSWORD]);
    assert_eq!(watcher.line("FEED.WATCH"), r"+OK\r\n");
    assert_eq!(watcher.line("WATCH other"), r"+OK\r\n");
    let mut witness = world.stranger();
    witness.call(&["HELLO", "3", "AUTH", "default", PASSWORD]);
    assert_eq!(witness.line("FEED.WATCH"), r"+OK\r\n");
    assert_eq!(watcher.call(&["AUTH", "app", PASSWORD]), r"+OK\r\n");
    world.db.cells().set("other", 1).unwrap();
    // One thread would deliver to both, to the watcher first.
    assert!(witness.receive().starts_with(">2"));
    assert_eq!(watcher.line("PING"), r"+PONG\r\n");
    watcher.line("MULTI");
    watcher.line("SET app:a 1");
    assert_eq!(watcher.line("EXEC"), r"*1\r\n+OK\r\n", "what it watched as another is forgotten");
}

#[test]
fn without_users_everybody_may_do_everything() {
    let world = World::with(|settings| settings.users.clear());
    let mut client = world.stranger();
    assert_eq!(client.line("SET a 1"), r"+OK\r\n");
    assert_eq!(client.line("ACL WHOAMI"), r"$7\r\ndefault\r\n");
    assert!(client.line("AUTH secret").starts_with("-ERR AUTH <password> called without any"));
    assert_eq!(world.ask(None, "GET", "/v1/cells/a", "").0, 200);
}

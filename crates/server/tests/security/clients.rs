//! Real clients that authenticate.

use crate::world::{PASSWORD, World};
use std::process::Command;

fn printed(command: &mut Command) -> String {
    let output = command.output().expect("./test installs what the tests need");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

fn redis_cli(world: &World, words: &[&str]) -> String {
    let port = world.resp.port().to_string();
    printed(Command::new("redis-cli").args(["--no-auth-warning", "-p", &port]).args(words))
}

#[test]
fn redis_cli_gives_a_password_or_a_user() {
    let world = World::new();
    assert_eq!(redis_cli(&world, &["-a", PASSWORD, "ACL", "WHOAMI"]), "default\n");
    let user = ["--user", "app", "--pass", PASSWORD];
    assert_eq!(redis_cli(&world, &[&user, ["ACL", "WHOAMI"].as_slice()].concat()), "app\n");
    assert_eq!(redis_cli(&world, &[&["-3"], &user[..], &["SET", "app:a", "1"]].concat()), "OK\n");
    assert!(redis_cli(&world, &[&user, ["GET", "other"].as_slice()].concat()).contains("NOPERM"));
    assert!(redis_cli(&world, &["-a", "wrong", "PING"]).contains("WRONGPASS"));
    assert!(redis_cli(&world, &["PING"]).contains("NOAUTH Authentication required."));
}

#[test]
fn redis_py_gives_a_user_in_both_protocols() {
    let world = World::new();
    let python = std::env::var("MAINSTAY_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/users.py");
    for protocol in ["2", "3"] {
        let port = world.resp.port().to_string();
        let mut command = Command::new(&python);
        command.args([script, &port, protocol, PASSWORD]);
        assert_eq!(printed(&mut command), "done\n", "RESP{protocol}");
    }
}

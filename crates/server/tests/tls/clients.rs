//! Real clients over TLS: `redis-cli`, `redis-benchmark`, redis-py.

use crate::papers::Authority;
use crate::support::tools::{printed, python_session, run};
use crate::support::{Ours, encode};
use crate::world::resp_face;
use std::process::Command;

/// Returns a Redis program that connects over TLS, or `None` if it was built without TLS.
fn tool(name: &str, ours: &Ours, authority: &Authority) -> Option<Command> {
    let help =
        Command::new(name).arg("--help").output().expect("./test installs what the tests need");
    let knows = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("--tls");
    if !knows(&help.stdout) && !knows(&help.stderr) {
        eprintln!("skipped: this {name} was built without TLS");
        return None;
    }
    let mut command = Command::new(name);
    command.args(["-h", "127.0.0.1", "-p", &ours.address.port().to_string(), "--tls", "--cacert"]);
    command.arg(authority.path());
    Some(command)
}

#[test]
fn redis_cli() {
    let (authority, ours) = resp_face();
    let Some(mut command) = tool("redis-cli", &ours, &authority) else { return };
    let typed = b"SET greeting hello\nCELL.GETV greeting\nINCR n\nGET greeting\n";
    let shown = printed(&run(command.arg("--no-raw"), typed));
    assert!(shown.starts_with("OK\n1) \"hello\"\n2) (integer) 1\n"), "{shown}");
    assert!(shown.ends_with("(integer) 1\n\"hello\"\n"), "{shown}");
}

#[test]
fn redis_cli_pipes_a_file_of_commands() {
    let (authority, ours) = resp_face();
    let Some(mut command) = tool("redis-cli", &ours, &authority) else { return };
    let commands: Vec<u8> =
        (0..5_000).flat_map(|n| encode(&["SET", &format!("k:{n}"), "v"])).collect();
    let shown = printed(&run(command.arg("--pipe"), &commands));
    assert!(shown.contains("errors: 0, replies: 5000"), "{shown}");
}

#[test]
fn redis_cli_goes_away_from_somebody_it_does_not_believe() {
    let (_authority, ours) = resp_face();
    let stranger = Authority::new();
    let Some(mut command) = tool("redis-cli", &ours, &stranger) else { return };
    let output = command.arg("PING").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("verify failed"), "{said}");
}

#[test]
fn redis_benchmark() {
    let (authority, ours) = resp_face();
    let Some(mut command) = tool("redis-benchmark", &ours, &authority) else { return };
    command.args(["-q", "-n", "2000", "-c", "16", "-P", "8", "-t", "set,get,incr"]);
    let shown = printed(&run(&mut command, b""));
    for test in ["SET: ", "GET: ", "INCR: "] {
        assert!(shown.contains(test), "no {test} in {shown}");
    }
    assert!(!shown.contains("Error"), "{shown}");
}

#[test]
fn redis_py() {
    for protocol in ["2", "3"] {
        let (authority, ours) = resp_face();
        python_session(ours.address.port(), protocol, &[authority.path().as_ref()]);
    }
}

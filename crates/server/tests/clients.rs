//! Real clients: `redis-cli`, `redis-benchmark`, redis-py, and the handshakes of other clients.

mod support;

use std::net::SocketAddr;
use std::process::Command;
use support::Ours;
use support::tools::{printed, python_session, run};

fn redis_cli(address: SocketAddr, flags: &[&str], lines: &[&str]) -> String {
    let mut command = Command::new("redis-cli");
    command.args(["-p", &address.port().to_string()]).args(flags);
    printed(&run(&mut command, &(lines.join("\n") + "\n").into_bytes()))
}

/// Typed lines, with the expected output for each.
const TYPED: &[(&str, &str)] = &[
    ("PING", "PONG"),
    ("SET greeting hello", "OK"),
    ("GET greeting", "\"hello\""),
    ("GET nothing", "(nil)"),
    ("MULTI", "OK"),
    ("INCR count", "QUEUED"),
    ("SET greeting bye", "QUEUED"),
    ("EXEC", "1) (integer) 1\n2) OK"),
    ("CELL.CAS greeting 2 again", "(integer) 3"),
    ("CELL.CAS greeting 2 late", "(nil)"),
    ("CELL.GET greeting REV 1", "\"hello\""),
    ("CELL.GET greeting REV 2", "\"bye\""),
    ("CELL.GET greeting", "\"again\""),
    ("BRANCH.FORK trial", "(integer) 3"),
    ("BRANCH.FORK trial", "(error) EXISTS"),
    ("BRANCH.USE trial", "OK"),
    ("SET greeting elsewhere", "OK"),
    ("BRANCH.USE main", "OK"),
    ("GET greeting", "\"again\""),
    ("INCR greeting", "(error) ERR value is not an integer or out of range"),
    ("FOO", "(error) ERR unknown command 'FOO', with args beginning with: "),
    ("GET", "(error) ERR wrong number of arguments for 'get' command"),
    ("PING still", "\"still\""),
];

fn typed_session(flags: &[&str]) {
    let ours = Ours::start();
    let lines: Vec<&str> = TYPED.iter().map(|(line, _)| *line).collect();
    let shown = redis_cli(ours.address, &[&["--no-raw"], flags].concat(), &lines);
    let mut rest = shown.as_str();
    for (line, wanted) in TYPED {
        let Some(behind) = rest.strip_prefix(wanted) else {
            panic!("{line} has to show {wanted}, not {rest}");
        };
        // An error may continue to the end of the line. `redis-cli` prints an empty line after it.
        rest = behind.split_once('\n').unwrap().1.trim_start_matches('\n');
    }
    assert_eq!(rest, "");
}

#[test]
fn a_session_typed_into_redis_cli() {
    typed_session(&[]);
}

#[test]
fn a_session_typed_into_redis_cli_in_resp3() {
    typed_session(&["-3"]);
}

#[test]
fn redis_cli_pipes_a_file_of_commands() {
    let ours = Ours::start();
    let commands: Vec<u8> =
        (0..5_000).flat_map(|n| support::encode(&["SET", &format!("k:{n}"), "v"])).collect();
    let mut command = Command::new("redis-cli");
    command.args(["-p", &ours.address.port().to_string(), "--pipe"]);
    let shown = printed(&run(&mut command, &commands));
    assert!(shown.contains("errors: 0, replies: 5000"), "{shown}");
    assert_eq!(ours.client().line("DBSIZE"), r":5000\r\n");
}

#[test]
fn redis_benchmark_runs_through() {
    let ours = Ours::start();
    let mut command = Command::new("redis-benchmark");
    command.args(["-p", &ours.address.port().to_string()]);
    command.args(["-q", "-n", "2000", "-c", "16", "-P", "8", "-t", "set,get,incr,mset,ping"]);
    let shown = printed(&run(&mut command, b""));
    for test in ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET (10 keys)"] {
        let lines = shown.split(['\n', '\r']);
        let rates = lines.filter(|line| line.starts_with(&format!("{test}: ")));
        assert!(
            rates.clone().any(|line| line.contains("requests per second")),
            "no rate of {test} in {shown}"
        );
    }
    assert!(!shown.contains("Error") && !shown.contains("WARNING"), "{shown}");
}

#[test]
fn redis_py_speaks_resp2() {
    let ours = Ours::start();
    python_session(ours.address.port(), "2", &[]);
}

#[test]
fn redis_py_speaks_resp3() {
    let ours = Ours::start();
    python_session(ours.address.port(), "3", &[]);
}

/// Sends a whole client handshake at once, and checks the beginning of each reply.
fn handshake(said: &[u8], replies: &[&str]) {
    let ours = Ours::start();
    let mut client = ours.client();
    client.send_bytes(said);
    for wanted in replies {
        let reply = client.receive();
        assert!(reply.starts_with(wanted), "{reply} does not begin with {wanted}");
    }
    assert_eq!(client.line("SET a 1"), r"+OK\r\n", "the connection goes on");
    assert_eq!(client.line("GET a"), r"$1\r\n1\r\n");
}

#[test]
fn the_handshake_of_go_redis() {
    let said = b"*2\r\n$5\r\nhello\r\n$1\r\n3\r\n\
        *5\r\n$6\r\nclient\r\n$19\r\nmaint_notifications\r\n$2\r\non\r\n$20\r\nmoving-endpoint-type\r\n$4\r\nnone\r\n\
        *4\r\n$6\r\nclient\r\n$7\r\nsetinfo\r\n$8\r\nLIB-NAME\r\n$19\r\ngo-redis(,go1.24.4)\r\n\
        *4\r\n$6\r\nclient\r\n$7\r\nsetinfo\r\n$7\r\nLIB-VER\r\n$6\r\n9.17.0\r\n";
    let hello = r"%7\r\n$6\r\nserver\r\n$8\r\nmainstay\r\n$7\r\nversion\r\n";
    handshake(said, &[hello, "-ERR unknown subcommand", r"+OK\r\n", r"+OK\r\n"]);
}

#[test]
fn the_handshake_of_ioredis() {
    let said = b"*4\r\n$6\r\nclient\r\n$7\r\nSETINFO\r\n$7\r\nLIB-VER\r\n$5\r\n5.8.0\r\n\
        *4\r\n$6\r\nclient\r\n$7\r\nSETINFO\r\n$8\r\nLIB-NAME\r\n$7\r\nioredis\r\n\
        *1\r\n$4\r\ninfo\r\n";
    handshake(said, &[r"+OK\r\n", r"+OK\r\n", "$"]);
}

#[test]
fn the_ready_check_of_ioredis_finds_a_server_that_has_loaded() {
    let ours = Ours::start();
    let info = ours.client().line("info");
    let loading = info.split(r"\r\n").find_map(|line| line.strip_prefix("loading:"));
    // With any value other than 0, a client repeats the question and sends no commands.
    assert_eq!(loading, Some("0"), "{info}");
}

#[test]
fn the_handshake_of_node_redis() {
    let said = b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n\
        *5\r\n$6\r\nCLIENT\r\n$19\r\nMAINT_NOTIFICATIONS\r\n$2\r\nON\r\n$20\r\nmoving-endpoint-type\r\n$11\r\ninternal-ip\r\n\
        *4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$7\r\nLIB-VER\r\n$5\r\n5.8.2\r\n\
        *4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$8\r\nLIB-NAME\r\n$10\r\nnode-redis\r\n";
    handshake(said, &["%7", "-ERR unknown subcommand", r"+OK\r\n", r"+OK\r\n"]);
}

#[test]
fn whoever_watches_changes_is_pushed_them_and_goes_on() {
    let ours = Ours::start();
    let mut watching = ours.client();
    assert!(watching.line("HELLO 3").starts_with('%'));
    assert_eq!(watching.line("FEED.WATCH PREFIX a"), r"+OK\r\n");
    assert_eq!(watching.line("PING"), r"+PONG\r\n");
    assert_eq!(ours.client().line("MSET b 1 a 2"), r"+OK\r\n");
    let push = watching.receive();
    assert!(push.starts_with(r">2\r\n$4\r\nfeed\r\n*6\r\n:1\r\n"), "{push}");
    assert!(push.ends_with(r"$4\r\nmain\r\n$5\r\ncells\r\n$1\r\na\r\n$3\r\nset\r\n"), "{push}");
    assert_eq!(watching.line("PING"), r"+PONG\r\n");
}

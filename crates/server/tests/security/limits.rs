//! Limits for unauthenticated clients, and the allowed listen addresses.

use crate::world::{PASSWORD, World, settings, user};
use mainstay_server::config::Config;
use mainstay_server::security::{Secret, Settings, UserSettings};
use mainstay_server::serve::run;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A hash that is slow to verify: 64 MiB, 24 passes. Its password is unknown.
const SLOW_HASH: &str = "$argon2id$v=19$m=65536,t=24,p=1$c2FsdHNhbHRzYWx0$\
    aGFzaGhhc2hoYXNoaGFzaGhhc2hoYXNoaGFzaGhhc2g";

#[test]
fn a_stranger_says_little() {
    let world = World::new();
    let long = "x".repeat(17 << 10);
    for bytes in
        [format!("*2\r\n$4\r\nAUTH\r\n${}\r\n", long.len()), "*17\r\n".to_owned(), long.clone()]
    {
        let mut stranger = world.stranger();
        stranger.send_bytes(bytes.as_bytes());
        assert!(stranger.receive().starts_with("-ERR Protocol error"));
        assert_eq!(stranger.receive_or_end(), None);
    }
    let mut known = world.client("default");
    assert_eq!(known.call(&["SET", "a", &long]), r"+OK\r\n");
    let many = [["EXISTS"].as_slice(), &["a"; 100]].concat();
    assert_eq!(known.call(&many), r":100\r\n");
    // RESET makes the connection unauthenticated again.
    known.line("RESET");
    known.send(&many);
    assert!(known.receive().starts_with("-ERR Protocol error"));
}

#[test]
fn the_head_of_a_request_is_bounded() {
    let world = World::new();
    let mut stream = TcpStream::connect(world.http).unwrap();
    let line = format!("x: {}\r\n", "y".repeat(6 << 10));
    // The server may close the connection before it has read all.
    let _ =
        stream.write_all(format!("GET /healthz HTTP/1.1\r\n{}\r\n", line.repeat(40)).as_bytes());
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 431");
}

#[test]
fn a_stranger_has_to_authenticate_in_time_and_a_user_may_be_silent() {
    let world = World::with(|settings| settings.login_limit_ms = 300);
    let mut user = world.client("default");
    let mut silent = world.stranger();
    let mut slow = world.stranger();
    slow.send_bytes(b"*2\r\n$4\r\nAUTH\r\n");
    for stranger in [&mut silent, &mut slow] {
        assert_eq!(
            stranger.receive(),
            r"-NOAUTH Authentication took too long: security.login_limit_ms is the limit\r\n"
        );
        assert_eq!(stranger.receive_or_end(), None);
    }
    assert_eq!(user.line("PING"), r"+PONG\r\n");
}

/// An unauthenticated connection counts for no user, so it must not stay open.
#[test]
fn whoever_says_reset_has_to_authenticate_in_time_again() {
    let world = World::with(|settings| settings.login_limit_ms = 300);
    let mut user = world.client("default");
    std::thread::sleep(std::time::Duration::from_millis(400));
    assert_eq!(user.line("RESET"), r"+RESET\r\n");
    assert_eq!(
        user.receive(),
        r"-NOAUTH Authentication took too long: security.login_limit_ms is the limit\r\n"
    );
    assert_eq!(user.receive_or_end(), None);
}

fn slow_user() -> UserSettings {
    UserSettings {
        name: "slow".into(),
        password_hash: Secret::new(SLOW_HASH),
        ..user("x", &[], &[])
    }
}

#[test]
fn verifying_a_password_holds_nobody_up() {
    let world = World::with(|settings| settings.users.push(slow_user()));
    let mut user = world.client("default");
    let mut guess = TcpStream::connect(world.resp).unwrap();
    guess.write_all(b"PING\r\n").unwrap();
    guess.read_exact(&mut [0; 34]).unwrap();
    guess.write_all(b"AUTH slow guess\r\n").unwrap();
    // The only loop has read the guess before this request, and answers this request before the guess.
    assert_eq!(user.line("PING"), r"+PONG\r\n");
    guess.set_nonblocking(true).unwrap();
    let error = guess.read(&mut [0; 1]).expect_err("verifying takes long");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_flood_of_guesses_is_bounded_and_users_are_served() {
    let world = World::with(|settings| {
        settings.users.push(slow_user());
        settings.attempts_at_once = 1;
        settings.attempts_waiting = 2;
    });
    let mut user = world.client("app");
    let mut guesses: Vec<_> = (0..20).map(|_| world.stranger()).collect();
    guesses.iter_mut().for_each(|guess| guess.send(&["AUTH", "slow", "guess"]));
    assert_eq!(user.line("SET app:a 1"), r"+OK\r\n");
    // A recently verified user does not wait behind the guesses.
    assert_eq!(user.call(&["AUTH", "app", PASSWORD]), r"+OK\r\n");
    assert_eq!(world.client("app").line("GET app:a"), r"$1\r\n1\r\n");
    // One is verified while two wait. How many others find room depends on the duration of the
    // verification.
    let replies: Vec<String> = guesses.iter_mut().map(|guess| guess.receive()).collect();
    let begin_with = |word: &str| replies.iter().filter(|reply| reply.starts_with(word)).count();
    let busy = begin_with("-UNAVAILABLE too many are");
    let wrong = begin_with("-WRONGPASS");
    assert!(busy > 0 && wrong >= 2 && busy + wrong == 20, "{replies:?}");
}

#[test]
fn a_server_without_users_listens_on_this_machine_alone() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mut serve = Config::default();
    serve.server.data = data.clone();
    serve.resp.address = "0.0.0.0:0".parse::<SocketAddr>().unwrap().into();
    serve.http.address = "127.0.0.1:0".parse::<SocketAddr>().unwrap().into();
    let error = run(&serve, |_| panic!("it serves")).unwrap_err();
    assert!(error.message().contains("give users under [security]"), "{error}");
    let wrong =
        Settings { users: vec![UserSettings { name: "a b".into(), ..slow_user() }], ..settings() };
    let error = run(&Config { security: wrong, ..serve }, |_| panic!("it serves")).unwrap_err();
    assert!(error.message().contains("the user \"a b\""), "{error}");
    assert!(!data.exists(), "nothing was made");
}

#[test]
fn no_secret_is_shown_by_the_settings() {
    let shown = format!("{:?} {}", settings(), serde_json::to_string(&settings()).unwrap());
    assert!(shown.contains("(secret)") && !shown.contains("argon2id"), "{shown}");
}

#[test]
fn settings_are_read_from_a_table_and_unknown_ones_are_refused() {
    let read = |text: &str| toml::from_str::<Settings>(text);
    let text = "login_limit_ms = 5\n[[users]]\nname = \"app\"\npassword_hash = \"h\"\n\
                allow = [\"cells\"]\nprefixes = [\"app:\"]\n";
    let settings = read(text).unwrap();
    assert_eq!((settings.login_limit_ms, settings.users[0].name.as_str()), (5, "app"));
    assert_eq!(settings.failures_per_connection, Settings::default().failures_per_connection);
    assert!(read("user = []").is_err() && read("[[users]]\npassword = \"x\"").is_err());
}

//! `--server`: errors for an absent server, and for a server of another kind.

use crate::program::Program;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// A foreign server that does this with its first client.
fn stranger(meet: impl FnOnce(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || meet(listener.accept().unwrap().0));
    address
}

#[test]
fn where_nobody_listens_it_says_how_to_start_one() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for words in [&["cell", "get", "a"][..], &["cell", "set", "a", "1"], &["repl"]] {
        let said = Program::new().run(&[&["--server", &free], words].concat()).error();
        assert!(said.contains(&format!("nobody listens at {free}")), "{said}");
        assert!(said.contains("mainstay serve") && said.contains("--data DIR"), "{said}");
    }
}

#[test]
fn what_is_no_address_is_said() {
    for address in ["nonsense", "host:port", "127.0.0.1:99999"] {
        let said = Program::new().run(&["--server", address, "cell", "list"]).error();
        assert!(said.contains("wants HOST:PORT"), "{said}");
    }
}

#[test]
fn a_web_server_is_not_taken_for_one() {
    let address = stranger(|mut stream| {
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let said = Program::new().run(&["--server", &address, "cell", "list"]).error();
    assert!(
        said.contains("does not answer in RESP") && said.contains("not the HTTP one"),
        "{said}"
    );
}

#[test]
fn a_connection_that_breaks_leaves_the_outcome_open() {
    let address = stranger(drop);
    let said = Program::new().run(&["--server", &address, "cell", "list"]).error();
    assert!(said.contains("look before you ask again"), "{said}");
}

#[test]
fn a_script_ends_with_its_connection() {
    let address = stranger(|mut stream| {
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.write_all(b"%0\r\n");
        let _ = stream.read(&mut [0; 64]);
    });
    let done = Program::new().fed(&["--server", &address, "repl"], b"TXN.BEGIN\nCELL.SET a 1\n");
    let said = done.error();
    assert!(said.contains("broke") && !said.contains("nobody listens"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_server_that_does_not_say_where_files_are_is_told_apart() {
    let address = stranger(|mut stream| {
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.write_all(b"%0\r\n%0\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let program = Program::new();
    let said = program.run(&["--server", &address, "backup", "file"]).error();
    assert!(said.contains("--http URL") && said.contains("--data DIR"), "{said}");
    assert!(!program.path("file").exists());
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let address = stranger(|mut stream| {
        // Waits until the client disconnects.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let words = ["--server", &address, "--timeout", "50ms", "cell", "list"];
    let said = Program::new().run(&words).error();
    assert!(said.contains("did not answer within 0.05 s"), "{said}");
}

#[test]
fn a_refused_greeting_is_shown() {
    let address = stranger(|mut stream| {
        let _ = stream.read(&mut [0; 64]);
        let _ = stream.write_all(b"-NOAUTH Authentication required.\r\n");
    });
    let said = Program::new().run(&["--server", &address, "cell", "list"]).error();
    assert!(said.contains("NOAUTH"), "{said}");
}

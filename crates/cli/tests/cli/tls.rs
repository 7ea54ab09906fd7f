//! The command line as a TLS client.

use crate::papers::Authority;
use crate::program::{Done, Program};
use crate::support::Ours;
use crate::tls_world::{resp_face, resp_with};
use std::path::Path;

fn run(ours: &Ours, flags: &[&str], words: &[&str]) -> Done {
    let address = format!("localhost:{}", ours.address.port());
    Program::new().run(&[&["--server", &address], flags, words].concat())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_server_that_the_given_authority_vouches_for() {
    let (authority, ours) = resp_face();
    let path = authority.path();
    for flags in [&["--tls", "--cacert", text(&path)][..], &["--cacert", text(&path)]] {
        let said = run(&ours, flags, &["cell", "set", "a", "1"]).ok();
        assert!(said.contains("counter"), "{said}");
    }
    assert_eq!(
        run(&ours, &["--cacert", text(&path)], &["cell", "get", "a", "-o", "raw"]).ok(),
        "1"
    );
}

#[test]
fn the_repl_speaks_tls_too() {
    let (authority, ours) = resp_face();
    let path = authority.path();
    let address = ours.address.to_string();
    let words = ["repl", "--server", &address, "--tls", "--cacert", text(&path), "-o", "raw"];
    let shown = Program::new().fed(&words, b"SET a 1\ncell get a\n").ok();
    assert!(shown.ends_with("1\n"), "{shown}");
}

#[test]
fn a_server_that_nobody_vouches_for() {
    let (_authority, ours) = resp_face();
    let stranger = Authority::new();
    for flags in [&["--tls"][..], &["--tls", "--cacert", text(&stranger.path())]] {
        let said = run(&ours, flags, &["cell", "list"]).error();
        assert!(
            said.contains("invalid peer certificate") || said.contains("no authorities"),
            "{said}"
        );
        assert!(said.contains("--cacert"), "{said}");
    }
}

#[test]
fn anybody_is_believed_only_with_a_warning() {
    let (_authority, ours) = resp_face();
    let done = run(&ours, &["--tls", "--insecure"], &["cell", "set", "a", "1"]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.err.contains("is not checked"), "{}", done.err);
}

#[test]
fn whoever_is_asked_for_a_certificate_shows_one() {
    let authority = Authority::new();
    let mut settings = authority.sign("server").settings();
    settings.client_ca = Some(authority.path());
    let ours = resp_with(&settings);
    let path = authority.path();
    let known = authority.sign("known");
    let trust = ["--cacert", text(&path)];
    let shown = ["--cert", text(&known.certificate), "--key", text(&known.key)];
    run(&ours, &[trust, [shown[0], shown[1]], [shown[2], shown[3]]].concat(), &["cell", "list"])
        .ok();
    run(&ours, &trust, &["cell", "list"]).error();
    let said = run(&ours, &[trust, [shown[0], shown[1]]].concat(), &["cell", "list"]).error();
    assert!(said.contains("--cert and --key go together"), "{said}");
}

#[test]
fn without_tls_the_server_says_what_is_missing() {
    let (_authority, ours) = resp_face();
    let said = run(&ours, &[], &["cell", "list"]).error();
    assert!(said.contains("this port speaks TLS"), "{said}");
}

#[test]
fn a_server_without_tls_is_not_talked_to_as_if_it_had_it() {
    let ours = Ours::start();
    let said = run(&ours, &["--insecure", "--timeout", "200ms"], &["cell", "list"]).error();
    assert!(said.contains("does it speak TLS?"), "{said}");
}

//! The command line as a user of a server, and its password hashes.

use crate::user_world::{PASSWORD, World};
use mainstay_server::security::{Secret, Security, Settings, UserSettings};
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn mainstay(arguments: &[&str], password: Option<&str>, input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mainstay"));
    command.args(arguments).env_remove("MAINSTAY_PASSWORD").stdin(Stdio::piped());
    if let Some(password) = password {
        command.env("MAINSTAY_PASSWORD", password);
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A program that does not read its input may end before all of it is written.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_hash_that_was_made_is_one_that_can_be_used() {
    let (hash, said) = texts(&mainstay(&["user", "hash"], None, "hunter2\nnot this\n"));
    assert_eq!(said, "");
    let password_hash = Secret::new(hash.trim_end());
    let user = UserSettings { name: "app".into(), password_hash, ..UserSettings::default() };
    let settings = Settings { users: vec![user], ..Settings::default() };
    let security = Security::new(&settings).unwrap();
    let verified = |password: &'static str| {
        let (sender, receiver) = std::sync::mpsc::channel();
        security.verify("app".into(), Secret::new(password), "here", move |verdict| {
            sender.send(verdict).unwrap()
        });
        format!("{:?}", receiver.recv().unwrap())
    };
    assert!(verified("hunter2").starts_with("Known"));
    assert_eq!(verified("hunter2\n"), "Wrong");
    let (_, said) = texts(&mainstay(&["user", "hash"], None, "\n"));
    assert!(said.contains("an empty password protects nothing"), "{said}");
}

#[test]
fn the_password_comes_from_the_environment_or_from_a_file() {
    let world = World::new();
    let server = world.resp.to_string();
    let file = world.directory.path().join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let place = ["--server", &server];
    let file = file.to_str().unwrap();
    let run = |more: &[&str], password| mainstay(&[&place, more].concat(), password, "");
    let set = ["--user", "app", "cell", "set", "app:a", "1"];
    assert!(run(&set, Some(PASSWORD)).status.success());
    let get = ["--user", "reader", "--password-file", file, "cell", "get", "app:a"];
    assert!(texts(&run(&get, Some("wrong"))).0.contains('1'), "the file goes before");
    assert!(run(&["cell", "get", "app:a"], Some(PASSWORD)).status.success(), "as `default`");
    let (_, said) = texts(&run(&["--user", "app", "cell", "get", "other"], Some(PASSWORD)));
    assert!(said.contains("NOPERM User app"), "{said}");
}

#[test]
fn what_is_missing_is_said() {
    let world = World::new();
    let server = world.resp.to_string();
    let said = |more: &[&str], password| {
        let output = mainstay(&[&["--server", &server], more].concat(), password, "");
        assert_eq!(output.status.code(), Some(2));
        texts(&output).1
    };
    let words = said(&["cell", "list"], None);
    assert!(words.contains("NOAUTH") && words.contains("--user NAME"), "{words}");
    assert!(words.contains("MAINSTAY_PASSWORD") && words.contains("--password-file"), "{words}");
    assert!(
        said(&["--user", "app", "cell", "list"], None).contains("the password of app is missing")
    );
    assert!(said(&["--user", "app", "cell", "list"], Some("no")).contains("WRONGPASS"));
    let words = said(&["--password-file", "/no/such/file", "cell", "list"], None);
    assert!(words.contains("/no/such/file"), "{words}");
}

#[test]
fn the_repl_is_a_user_too() {
    let world = World::new();
    let arguments = ["--server", &world.resp.to_string(), "--user", "app", "repl"];
    let (out, said) = texts(&mainstay(&arguments, Some(PASSWORD), "ACL WHOAMI\nGET other\n"));
    assert!(out.contains("app") && said.contains("NOPERM User app"), "{out} {said}");
}

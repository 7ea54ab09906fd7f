//! Runs external programs to completion.

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs a program that `./test` installs, with this standard input.
pub fn run(command: &mut Command, input: &[u8]) -> Output {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| {
        panic!("{name} could not be started: {error}; ./test installs what the tests need")
    });
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// Returns the output of a program, which must have succeeded.
pub fn printed(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let out = text(&output.stdout);
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{}\n{out}\n{errors}", output.status);
    out
}

/// Runs a script with redis-py against the server at this port, with more arguments.
pub fn python_session(port: u16, protocol: &str, more: &[&std::ffi::OsStr]) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/session.py");
    let mut command = Command::new(python());
    command.args([script, &port.to_string(), protocol]).args(more);
    assert_eq!(printed(&run(&mut command, b"")), "done\n");
}

/// Returns the Python interpreter with redis-py, which `./test` installs.
fn python() -> String {
    std::env::var("MAINSTAY_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

//! Test fixture that runs the program and captures its output.

use mainstay::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The program in its own directory.
pub struct Program {
    root: TempDir,
}

/// The result of a run.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Program {
    pub fn new() -> Program {
        Program { root: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mainstay"));
        command.current_dir(self.root()).args(arguments).env("HOME", self.root());
        command.env_remove("XDG_STATE_HOME").env_remove("NO_COLOR");
        command
    }

    /// Runs a shell line on a pseudo-terminal.
    pub fn shell_on_a_terminal(&self, line: &str) -> Command {
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--flush", "--command", line, "/dev/null"]);
        command.current_dir(self.root()).env("HOME", self.root()).env("TERM", "xterm");
        command
    }

    /// Runs the program with empty input.
    pub fn run(&self, arguments: &[&str]) -> Done {
        self.fed(arguments, b"")
    }

    /// Runs the program on the database in `d`.
    pub fn data(&self, arguments: &[&str]) -> Done {
        self.data_fed(arguments, "")
    }

    /// Runs the program on the database in `d`, with this input.
    pub fn data_fed(&self, arguments: &[&str], input: &str) -> Done {
        let arguments: Vec<&str> = ["--data", "d"].into_iter().chain(arguments.to_vec()).collect();
        self.fed(&arguments, input.as_bytes())
    }

    pub fn fed(&self, arguments: &[&str], input: &[u8]) -> Done {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A program that does not read its input may end before all of it is written.
        let _ = child.stdin.take().unwrap().write_all(input);
        Done::of(child.wait_with_output().unwrap())
    }
}

impl Done {
    pub fn of(output: Output) -> Done {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let out = text(&output.stdout);
        let err = text(&output.stderr);
        Done { code: output.status.code().unwrap_or(-1), out, err }
    }

    /// The output of a successful run.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }

    /// The message of a run with exit code 1; the standard output must be empty.
    #[track_caller]
    pub fn not_held(self) -> String {
        assert_eq!((self.code, self.out.as_str()), (1, ""), "{}", self.err);
        self.err
    }

    /// The message of a run with exit code 2; the standard output must be empty.
    #[track_caller]
    pub fn error(self) -> String {
        assert_eq!((self.code, self.out.as_str()), (2, ""), "{}", self.err);
        self.err
    }

    /// The JSON lines of a successful run.
    #[track_caller]
    pub fn objects(self) -> Vec<Value> {
        self.ok().lines().map(|line| Value::from_json(line).expect(line)).collect()
    }
}

#[track_caller]
pub fn field<'a>(object: &'a Value, name: &str) -> &'a Value {
    match object {
        Value::Object(fields) => &fields[name],
        other => panic!("{other} is no object"),
    }
}

//! Test fixture: the program on a terminal.

use crate::program::Program;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

const CTRL_C: &str = "\x03";

/// The program on a pseudo-terminal, which `script` creates.
pub struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: ChildStdout,
    unseen: String,
}

impl Terminal {
    pub fn start(program: &Program, arguments: &str) -> Terminal {
        let line = format!("{} {arguments}", env!("CARGO_BIN_EXE_mainstay"));
        let mut command = program.shell_on_a_terminal(&line);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let keys = child.stdin.take().unwrap();
        let screen = child.stdout.take().unwrap();
        Terminal { child, keys, screen, unseen: String::new() }
    }

    /// Waits until this text appears after the text that was awaited before.
    #[track_caller]
    pub fn see(&mut self, text: &str) {
        let mut piece = [0; 4096];
        loop {
            if let Some((_, behind)) = self.unseen.split_once(text) {
                self.unseen = behind.to_owned();
                return;
            }
            let count = self.screen.read(&mut piece).unwrap();
            assert!(count > 0, "it ended without {text:?}: {:?}", self.unseen);
            self.unseen.push_str(&String::from_utf8_lossy(&piece[..count]));
        }
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_interruption_ends_the_following_and_not_the_repl() {
    let program = Program::new();
    program.data(&["cell", "set", "first", "1"]).ok();
    let mut terminal = Terminal::start(&program, "--data d repl -o raw");
    terminal.see("d> ");
    terminal.press("feed --follow\r");
    terminal.see("first\tset");
    terminal.press(CTRL_C);
    terminal.see("d> ");
    terminal.press("cell set second 2\r");
    terminal.see("1\r\n");
    terminal.see("d> ");
    terminal.press("feed --follow --after 1\r");
    terminal.see("second\tset");
    terminal.press(CTRL_C);
    terminal.see("d> ");
    terminal.press("MULTI\r");
    terminal.see("d*> ");
    terminal.press("EXEC\r");
    terminal.see("d> ");
}

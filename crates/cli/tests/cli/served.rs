//! Test fixture: `mainstay serve` in a process of its own.

use crate::program::Program;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

/// A running server, killed at the end of the test.
pub struct Served {
    child: Child,
    pub port: u16,
    pub http_port: u16,
}

impl Served {
    pub fn start(program: &Program, variables: &[(&str, &str)]) -> Served {
        let mut command = program.command(&["serve", "--http", "127.0.0.1:0"]);
        // A test must not fail because of a small disk.
        command.env("MAINSTAY_HTTP__SCRATCH_RESERVE_BYTES", "0");
        command.envs(variables.iter().copied());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        // Both ports are in the welcome message, in this order.
        let port = lines.find_map(|line| port_behind(&line, "redis-cli -p ", ' ')).unwrap();
        let http_port =
            lines.find_map(|line| port_behind(&line, "http://127.0.0.1:", '/')).unwrap();
        Served { child, port, http_port }
    }

    /// The reply to the first line on a new connection.
    pub fn ask(&self, line: &str) -> (TcpStream, String) {
        self.ask_at(self.port, &format!("{line}\r\n"))
    }

    /// The response to the first request on a new HTTP connection.
    pub fn ask_http(&self, request: &str) -> String {
        self.ask_at(self.http_port, request).1
    }

    fn ask_at(&self, port: u16, text: &str) -> (TcpStream, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // A server that refuses the connection does not read.
        let _ = stream.write_all(text.as_bytes());
        let mut bytes = [0; 256];
        let count = stream.read(&mut bytes).unwrap_or(0);
        (stream, String::from_utf8_lossy(&bytes[..count]).into_owned())
    }

    /// Like `ask`, but retries while closed connections still hold slots.
    pub fn ask_until_seated(&self, line: &str) -> String {
        loop {
            let said = self.ask(line).1;
            if !said.starts_with("-ERR max number") {
                return said;
            }
        }
    }
}

fn port_behind(line: &str, before: &str, end: char) -> Option<u16> {
    line.split_once(before)?.1.split(end).next()?.parse().ok()
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

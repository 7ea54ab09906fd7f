//! A server in its own process, on a free port, ended by its process id.

use super::load::Caller;
use super::ports;
use super::wire::Expected;
use crate::args::SERVE;
use crate::context::Outcome;
use mainstay::Durability;
use rustix::process::{Pid, Signal, kill_process};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longer than any working operation takes.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Polling interval.
const LOOK: Duration = Duration::from_millis(1);

/// A running server. Dropping it kills it.
pub struct Server {
    name: &'static str,
    child: Child,
    /// Its RESP address.
    pub address: SocketAddr,
}

impl Server {
    /// Starts our server on a directory, which may hold a database.
    pub fn ours(directory: &Path, durability: Durability) -> Outcome<Server> {
        let port = ports::free()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(SERVE).arg(directory).args([&port.to_string(), word(durability)]);
        Server::spawn("our server", command, port)
    }

    /// Starts Redis with the nearest durability, and with other background work disabled.
    pub fn redis(directory: &Path, durability: Durability) -> Outcome<Server> {
        std::fs::create_dir_all(directory)?;
        let port = ports::free()?;
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir"]);
        command.arg(directory);
        command.args(["--save", "", "--appendonly", "yes", "--appendfsync", fsync(durability)]);
        command.args(["--auto-aof-rewrite-percentage", "0", "--daemonize", "no"]);
        Server::spawn("redis-server", command, port)
    }

    fn spawn(name: &'static str, mut command: Command, port: u16) -> Outcome<Server> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let child = child.map_err(|error| {
            format!("{name} cannot be started: {error}; Redis 7 has to be installed for this bench")
        })?;
        Ok(Server { name, child, address: SocketAddr::from(([127, 0, 0, 1], port)) })
    }

    /// Repeats a request until the server answers as expected.
    pub fn wait_for(&mut self, request: &[&str], expected: &Expected) -> Outcome<()> {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if let Ok(mut caller) = Caller::to(self.address) {
                return caller.call(request, expected);
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("{} ended before it listened: {status}", self.name).into());
            }
            std::thread::sleep(LOOK);
        }
        Err(format!("{} does not listen at {}", self.name, self.address).into())
    }

    /// Waits until it answers at all.
    pub fn wait(&mut self) -> Outcome<()> {
        self.wait_for(&["PING"], &Expected::exactly("+PONG\r\n"))
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop, and waits for its end.
    pub fn stop(mut self) -> Outcome<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = end_within(&mut self.child, PATIENCE)?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("{} did not stop in order: {status}", self.name).into())
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for the end of a child. Kills it after `patience`.
pub fn end_within(child: &mut Child, patience: Duration) -> Outcome<ExitStatus> {
    let started = Instant::now();
    while started.elapsed() < patience {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(LOOK);
    }
    child.kill()?;
    child.wait()?;
    Err(format!("process {} did not end within {patience:?} and was killed", child.id()).into())
}

/// The name of a durability level for the child process.
fn word(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "sync",
        _ => "interval",
    }
}

/// The name of a durability level for Redis.
pub fn fsync(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "always",
        _ => "everysec",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Task;

    #[test]
    fn a_child_that_does_not_end_is_killed_by_its_id() {
        let mut sleeper = Command::new("sleep").arg("600").spawn().unwrap();
        assert!(end_within(&mut sleeper, Duration::from_millis(5)).is_err());
        assert!(sleeper.try_wait().unwrap().is_some());
        let mut quick = Command::new("true").spawn().unwrap();
        assert!(end_within(&mut quick, PATIENCE).unwrap().success());
    }

    #[test]
    fn the_child_understands_what_it_is_told() {
        for durability in [Durability::Sync, Durability::Interval] {
            let words = [SERVE, "directory", "7379", word(durability)].map(String::from);
            let directory = "directory".into();
            let port = 7379;
            let expected = Task::Serve { directory, port, durability };
            assert_eq!(crate::args::parse(words.into_iter()).unwrap(), expected);
        }
    }

    #[test]
    fn a_server_that_cannot_start_is_an_error_and_not_a_wait() {
        let port = ports::free().unwrap();
        let mut server = Server::spawn("false", Command::new("false"), port).unwrap();
        let trouble = server.wait().err().unwrap().to_string();
        assert!(trouble.contains("ended before it listened"), "{trouble}");
        assert!(Server::spawn("none", Command::new("no-such-program"), port).is_err());
    }
}

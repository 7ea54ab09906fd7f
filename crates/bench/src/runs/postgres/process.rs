//! A PostgreSQL server for this run: created, started, and stopped by its process id.

use super::install::{HOW_TO_INSTALL, Install, User};
use crate::context::{Context, Outcome};
use crate::server::ports;
use crate::server::process::{PATIENCE, end_within};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_postgres::{Config, NoTls};

/// Interval between checks whether it listens.
const LOOK: Duration = Duration::from_millis(20);
/// Wrapper that runs the following program and sends it a signal when its parent dies.
const GUARD: [&str; 4] = ["setpriv", "--pdeathsig", "INT", "--"];
/// Number of bytes shown from the end of its log after a failure.
const SHOWN_BYTES: usize = 2_000;

/// Settings besides the defaults. The first two are defaults, stated here because the comparison depends on
/// them.
const SETTINGS: [&str; 5] = [
    "fsync=on",
    "synchronous_commit=on",
    "shared_buffers=256MB",
    // Two forms at a time, plus connections of the previous comparison that are still closing.
    "max_connections=300",
    "listen_addresses=",
];

/// A running PostgreSQL. Dropping it stops it before its directories are removed.
pub struct Postgres {
    child: Child,
    port: u16,
    /// Name in the report.
    pub name: String,
    sockets: TempDir,
    _directory: TempDir,
}

impl Postgres {
    /// Creates and starts a server. If it is not installed, prints a note and returns `None`.
    pub fn start(context: &Context) -> Outcome<Option<Postgres>> {
        let Some(install) = Install::find() else {
            eprintln!("bench: {HOW_TO_INSTALL}");
            return Ok(None);
        };
        let home = Home::make(context, User::needed()?)?;
        home.initialise(&install)?;
        let port = ports::free()?;
        let child = home.spawn(&install, port)?;
        let name = format!("PostgreSQL {}", install.version);
        let (log, Home { sockets, directory, .. }) = (home.log(), home);
        let mut postgres = Postgres { child, port, name, sockets, _directory: directory };
        postgres.wait(&log)?;
        Ok(Some(postgres))
    }

    /// The connection settings: through its Unix socket, the fastest way.
    pub fn config(&self) -> Config {
        let mut config = Config::new();
        config.host_path(self.sockets.path()).port(self.port).user("postgres").dbname("postgres");
        config
    }

    fn wait(&mut self, log: &Path) -> Outcome<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if runtime.block_on(self.config().connect(NoTls)).is_ok() {
                return Ok(());
            }
            if self.child.try_wait()?.is_some() {
                break;
            }
            std::thread::sleep(LOOK);
        }
        Err(format!("PostgreSQL does not listen: {}", end_of(log)).into())
    }

    /// Stops it in order and waits for its end.
    pub fn stop(mut self) -> Outcome<()> {
        self.end()
    }

    /// Fast shutdown: it aborts open transactions, closes connections and writes everything.
    fn end(&mut self) -> Outcome<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        kill_process(Pid::from_child(&self.child), Signal::INT)?;
        end_within(&mut self.child, PATIENCE)?;
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Also if the bench fails. An error means that it has already ended.
        let _ = self.end();
    }
}

/// The directories of one server, and their owner.
struct Home {
    directory: TempDir,
    sockets: TempDir,
    user: Option<User>,
}

impl Home {
    fn make(context: &Context, user: Option<User>) -> Outcome<Home> {
        let directory = context.directory("postgres")?;
        // The path of a socket is limited to about a hundred bytes.
        let sockets = tempfile::Builder::new().prefix("bench-").tempdir()?;
        if let Some(User { id, group }) = user {
            // The server's user must be able to traverse the directory of this run.
            let above = directory.path().parent().unwrap_or(directory.path());
            std::fs::set_permissions(above, Permissions::from_mode(0o711))?;
            chown(directory.path(), Some(id), Some(group))?;
            chown(sockets.path(), Some(id), Some(group))?;
        }
        Ok(Home { directory, sockets, user })
    }

    fn initialise(&self, install: &Install) -> Outcome<()> {
        let mut command = self.command(install, "initdb");
        command.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale"]);
        let output = command.arg("--pgdata").arg(self.data()).output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let who = self.user.map_or("you", |_| "the user postgres, as which it is run,");
        Err(format!(
            "PostgreSQL's initdb failed: {}; {who} must be able to enter {}",
            said.trim(),
            self.directory.path().display()
        )
        .into())
    }

    fn spawn(&self, install: &Install, port: u16) -> Outcome<Child> {
        let log = File::create(self.log())?;
        let mut command = self.guarded(install, "postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(self.sockets.path());
        command.args(["-p", &port.to_string()]);
        SETTINGS.iter().for_each(|setting| {
            command.args(["-c", setting]);
        });
        Ok(command.stdout(Stdio::null()).stderr(log).spawn()?)
    }

    /// A program that gets a stop signal when this process ends in any way, if the system supports it.
    fn guarded(&self, install: &Install, program: &str) -> Command {
        let mut probe = Command::new(GUARD[0]);
        let works =
            probe.args(&GUARD[1..]).arg("true").status().is_ok_and(|status| status.success());
        if !works {
            return self.command(install, program);
        }
        let mut command = self.prepared(Command::new(GUARD[0]));
        command.args(&GUARD[1..]).arg(install.programs.join(program));
        command
    }

    fn command(&self, install: &Install, program: &str) -> Command {
        self.prepared(Command::new(install.programs.join(program)))
    }

    fn prepared(&self, mut command: Command) -> Command {
        command.current_dir(self.directory.path()).env("LC_ALL", "C").stdin(Stdio::null());
        if let Some(User { id, group }) = self.user {
            command.uid(id).gid(group);
        }
        command
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }
}

fn end_of(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let end = &bytes[bytes.len().saturating_sub(SHOWN_BYTES)..];
    String::from_utf8_lossy(end).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_log_the_end_is_shown() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        assert_eq!(end_of(&log), "");
        std::fs::write(&log, format!("{}\nno room\n", "x".repeat(SHOWN_BYTES))).unwrap();
        let shown = end_of(&log);
        assert!(shown.ends_with("no room") && shown.len() <= SHOWN_BYTES, "{shown}");
    }

    /// The settings must not make PostgreSQL's commits cheaper than ours.
    #[test]
    fn what_is_committed_is_synced() {
        assert!(SETTINGS.contains(&"fsync=on") && SETTINGS.contains(&"synchronous_commit=on"));
    }
}

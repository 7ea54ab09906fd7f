//! Memory of idle connections: an empty server, then five thousand clients that each sent one command.

use super::load::Caller;
use super::process::Server;
use super::wire::Expected;
use crate::context::{Context, Outcome};
use crate::proc;
use crate::report::Row;
use mainstay::Durability;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const CONNECTIONS: usize = 5_000;
/// Upper limit for all of them together.
const LIMIT_MIB: f64 = 100.0;
/// Files that a process opens besides its connections, with some headroom.
const OTHER_FILES: u64 = 200;

/// Runs the case.
pub fn run(context: &mut Context) -> Outcome<()> {
    let case = format!("memory of {CONNECTIONS} idle connections");
    if !context.wants(&case) {
        return Ok(());
    }
    allow_files(CONNECTIONS as u64 + OTHER_FILES)?;
    let directory = context.directory("idle")?;
    let mut server = Server::ours(&directory.path().join("ours"), Durability::Sync)?;
    server.wait()?;
    let empty_kib = proc::memory_kib(server.id(), proc::NOW)?;
    let callers = connect(&server)?;
    let peak_kib = proc::memory_kib(server.id(), proc::PEAK)?;
    drop(callers);
    server.stop()?;
    let held_mib = mib_over(empty_kib, peak_kib);
    context.report.add(Row::smaller(&case, "MiB", held_mib, ("limit", LIMIT_MIB)).must(1.0));
    Ok(())
}

/// Each client sends one command, so that the server has allocated the state of an active client.
fn connect(server: &Server) -> Outcome<Vec<Caller>> {
    let pong = Expected::exactly("+PONG\r\n");
    let caller = |_| -> Outcome<Caller> {
        let mut caller = Caller::to(server.address)?;
        caller.call(&["PING"], &pong)?;
        Ok(caller)
    };
    (0..CONNECTIONS).map(caller).collect()
}

fn mib_over(empty_kib: u64, peak_kib: u64) -> f64 {
    peak_kib.saturating_sub(empty_kib) as f64 / 1024.0
}

/// Raises this process's own limit of open files, which the servers inherit.
fn allow_files(files: u64) -> Outcome<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= files) {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum }).map_err(|error| {
        format!("{files} files have to be open at once: {error}; raise the limit with `ulimit -n`")
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_held_before_does_not_count() {
        assert_eq!(mib_over(10 * 1024, 35 * 1024 + 512), 25.5);
        assert_eq!(mib_over(10, 5), 0.0);
    }

    #[test]
    fn the_limit_of_files_is_raised_only_where_it_may_be() {
        let before = getrlimit(Resource::Nofile);
        allow_files(1).unwrap();
        assert_eq!(getrlimit(Resource::Nofile), before);
        if before.maximum.is_some() {
            assert!(allow_files(u64::MAX - 1).is_err());
        }
    }
}

//! Finds the PostgreSQL programs, and the user that may run them.

use crate::context::Outcome;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of Debian's package, which is not on the search path.
const DEBIAN: &str = "/usr/lib/postgresql/15/bin";

/// The advice if it is not installed.
pub const HOW_TO_INSTALL: &str =
    "PostgreSQL is not there and its columns are left out: apt-get install postgresql-15";

/// The programs of one installation.
#[derive(Clone, Debug)]
pub struct Install {
    /// Their directory.
    pub programs: PathBuf,
    /// Their version.
    pub version: String,
}

impl Install {
    /// The first installation found; version 15 is preferred.
    pub fn find() -> Option<Install> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let candidates = [Some(PathBuf::from(DEBIAN)), configured()];
        let candidates = candidates.into_iter().flatten().chain(std::env::split_paths(&path));
        candidates.into_iter().find_map(|programs| Install::at(&programs))
    }

    fn at(programs: &Path) -> Option<Install> {
        let [initdb, postgres] = ["initdb", "postgres"].map(|name| programs.join(name));
        if !initdb.is_file() || !postgres.is_file() {
            return None;
        }
        let version = version(&said(Command::new(postgres).arg("--version"))?)?;
        Some(Install { programs: programs.to_owned(), version })
    }
}

fn configured() -> Option<PathBuf> {
    let said = said(Command::new("pg_config").arg("--bindir"))?;
    Some(PathBuf::from(said.trim()))
}

fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn version(text: &str) -> Option<String> {
    let rest = text.split_once("(PostgreSQL)")?.1;
    rest.split_whitespace().next().map(String::from)
}

/// A user and its group, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    pub id: u32,
    pub group: u32,
}

impl User {
    /// The user it must run as, because PostgreSQL refuses to run as root. `None`: the current user.
    pub fn needed() -> Outcome<Option<User>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let users = std::fs::read_to_string("/etc/passwd")?;
        match postgres(&users) {
            Some(user) => Ok(Some(user)),
            None => Err("PostgreSQL does not run as root, and there is no user `postgres` to run \
                         it as: make one, or run the bench as another user"
                .into()),
        }
    }
}

fn postgres(users: &str) -> Option<User> {
    let line = users.lines().find_map(|line| line.strip_prefix("postgres:"))?;
    let mut fields = line.split(':').skip(1);
    Some(User { id: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found() {
        let text = "postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n";
        assert_eq!(version(text).as_deref(), Some("15.14"));
        assert_eq!(version("postgres 15"), None);
    }

    #[test]
    fn its_user_is_found_by_the_whole_name() {
        let users = "root:x:0:0:root:/root:/bin/bash\nnot-postgres:x:1:2::/:/bin/sh\n\
                     postgres:x:101:104:PostgreSQL administrator,,,:/var/lib/postgresql:/bin/bash\n";
        assert_eq!(postgres(users), Some(User { id: 101, group: 104 }));
        assert_eq!(postgres("root:x:0:0:root:/root:/bin/bash\n"), None);
    }

    #[test]
    fn a_directory_without_the_programs_is_none() {
        assert!(Install::at(Path::new("/nowhere")).is_none());
    }
}

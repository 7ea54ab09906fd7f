//! An embedded database as a store: executes the commands of a server on a database in this process.

use super::failure::{Failure, Result};
use super::reply::Reply;
use mainstay::{Code, Database, Error, ErrorKind};
use mainstay_server::embedded::EmbeddedSession;
use std::path::{Path, PathBuf};

/// The file that identifies a database directory.
const IDENTITY: &str = "DATABASE";

/// A database in this process.
pub struct EmbeddedStore {
    path: PathBuf,
    session: EmbeddedSession,
}

impl EmbeddedStore {
    /// Opens the database in a directory. Creates one only if `make` is true.
    pub fn open(path: &Path, make: bool) -> Result<EmbeddedStore> {
        if !make && !path.join(IDENTITY).exists() {
            return Err(Failure::error(format!(
                "there is no database in {}: check the path; the first write makes one",
                path.display()
            )));
        }
        let db = Database::open(path).map_err(|error| open_failure(path, error))?;
        Ok(EmbeddedStore { path: path.to_owned(), session: EmbeddedSession::new(db) })
    }

    /// A further session on the same database.
    pub fn open_another(&self) -> EmbeddedStore {
        EmbeddedStore { path: self.path.clone(), session: self.session.open_another() }
    }

    /// The database's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The database itself.
    pub fn database(&self) -> &Database {
        self.session.database()
    }

    /// Executes a command.
    pub fn call(&mut self, words: &[Vec<u8>]) -> Reply {
        self.session.execute(words)
    }

    /// Waits for work under way and closes the database.
    pub fn close(self) -> Result<()> {
        Ok(self.database().close()?)
    }
}

fn open_failure(path: &Path, error: Error) -> Failure {
    let path = path.display();
    match error.code() {
        Code::Locked => Failure::from(error)
            .hint("if a server has it open, talk to that with --server ADDR instead of --data"),
        code if code.kind() == ErrorKind::Corrupt => {
            Failure::from(error).hint(&format!("`mainstay doctor {path}` says more"))
        }
        _ => Failure::from(error),
    }
}

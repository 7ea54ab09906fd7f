//! An embedded database as a store: executes the commands of a server on a database in this process.

use super::failure::{Failure, Result};
use super::reply::Reply;
use mainstay::{Code, Database, Error, ErrorKind};
use mainstay_server::resp::{self, Session, Settings, Shared};
use std::path::{Path, PathBuf};

/// The file that identifies a database directory.
const IDENTITY: &str = "DATABASE";

/// A database in this process.
pub struct Embedded {
    path: PathBuf,
    session: Session,
}

impl Embedded {
    /// Opens the database in a directory. Creates one only if `make` is true.
    pub fn open(path: &Path, make: bool) -> Result<Embedded> {
        if !make && !path.join(IDENTITY).exists() {
            return Err(Failure::error(format!(
                "there is no database in {}: check the path; the first write makes one",
                path.display()
            )));
        }
        let db = Database::open(path).map_err(|error| not_opened(path, error))?;
        let session = Session::new(&Shared::new(db, Settings::default()), "here".to_owned());
        Ok(Embedded { path: path.to_owned(), session })
    }

    /// A further session on the same database.
    pub fn another(&self) -> Embedded {
        let session = Session::new(&self.session.shared, "here".to_owned());
        Embedded { path: self.path.clone(), session }
    }

    /// The database's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The database itself.
    pub fn database(&self) -> &Database {
        &self.session.shared.db
    }

    /// Executes a command.
    pub fn call(&mut self, words: &[Vec<u8>]) -> Reply {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        read(self.session.answer(&words))
    }

    /// Waits for work under way and closes the database.
    pub fn close(self) -> Result<()> {
        Ok(self.database().close()?)
    }
}

fn not_opened(path: &Path, error: Error) -> Failure {
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

/// Converts a reply to the form that a client decodes.
fn read(reply: resp::Reply) -> Reply {
    let all = |items: Vec<resp::Reply>| items.into_iter().map(read).collect();
    match reply {
        resp::Reply::Status(text) => Reply::text(text),
        resp::Reply::Error(text) => Reply::Error(text.into_owned()),
        resp::Reply::Int(n) => Reply::Int(n),
        resp::Reply::Bulk(bytes) => Reply::Text(bytes),
        resp::Reply::Nil | resp::Reply::NilArray => Reply::Nil,
        resp::Reply::Array(items) | resp::Reply::Push(items) => Reply::Array(all(items)),
        resp::Reply::Map(pairs) => {
            Reply::Map(pairs.into_iter().map(|(key, value)| (read(key), read(value))).collect())
        }
        resp::Reply::Pairs(pairs) => Reply::Array(
            pairs
                .into_iter()
                .map(|(key, value)| Reply::Array(vec![read(key), read(value)]))
                .collect(),
        ),
    }
}

//! A directory as a store: the same commands that a server takes, on a database in this process.
//!
//! ```text
//!   words --Words--> command and arguments --> cells, branches, feed --> Reply
//!                                              the engine's Connection keeps branch and transaction
//! ```

mod branches;
mod cells;
mod feed;
mod words;

use super::failure::{Failure, Result};
use super::reply::Reply;
use mainstay::{Code, Connection, Database, Error, ErrorKind};
use std::path::{Path, PathBuf};
use words::Words;

/// The file that makes a directory a database.
const IDENTITY: &str = "DATABASE";

/// Why a command was refused, as RESP has it: the kind, then a sentence.
struct Refusal(String);

type Answer = std::result::Result<Reply, Refusal>;

/// A database in this process.
pub struct Embedded {
    path: PathBuf,
    db: Database,
    connection: Connection,
}

impl Embedded {
    /// Opens the database in a directory; makes one only where that is asked for.
    pub fn open(path: &Path, make: bool) -> Result<Embedded> {
        if !make && !path.join(IDENTITY).exists() {
            return Err(Failure::error(format!(
                "there is no database in {}: check the path; the first write makes one",
                path.display()
            )));
        }
        let db = Database::open(path).map_err(|error| not_opened(path, error))?;
        let connection = db.connection();
        Ok(Embedded { path: path.to_owned(), db, connection })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The database itself.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// Executes a command.
    pub fn call(&mut self, words: &[Vec<u8>]) -> Reply {
        self.execute(words).unwrap_or_else(|Refusal(line)| Reply::Error(line))
    }

    fn execute(&mut self, words: &[Vec<u8>]) -> Answer {
        let mut words = Words::new(words)?;
        let command = words.command().to_owned();
        let reply = match command.split_once('.') {
            Some(("CELL", verb)) => cells::run(self, verb, &mut words),
            Some(("BRANCH" | "TAG", _)) => branches::run(self, &command, &mut words),
            Some(("FEED", "READ")) => feed::read(self, &mut words),
            Some(("TXN", verb)) => self.transaction(verb, &mut words),
            _ => self.plain(&command, &mut words),
        };
        reply.map(|reply| reply.ok_or_else(|| unknown(&command)))?
    }

    fn transaction(&mut self, verb: &str, words: &mut Words) -> Known {
        words.end()?;
        Ok(Some(match verb {
            "BEGIN" => self.connection.begin().map(|()| Reply::text("OK"))?,
            "COMMIT" => Reply::number(self.connection.commit()?.revision),
            "ROLLBACK" => self.connection.rollback().map(|()| Reply::text("OK"))?,
            _ => return Ok(None),
        }))
    }

    fn plain(&mut self, command: &str, words: &mut Words) -> Known {
        Ok(Some(match command {
            "PING" => {
                words.end()?;
                Reply::text("PONG")
            }
            "ECHO" => {
                let text = words.next("a text")?;
                words.end()?;
                Reply::Text(text)
            }
            "REVISION" => {
                words.end()?;
                Reply::number(self.db.revision())
            }
            _ => return cells::plain(self, command, words),
        }))
    }

    /// Finishes what is under way and closes.
    pub fn close(self) -> Result<()> {
        Ok(self.db.close()?)
    }
}

/// A reply, or nothing when there is no such command.
type Known = std::result::Result<Option<Reply>, Refusal>;

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

fn unknown(command: &str) -> Refusal {
    Refusal(format!(
        "ERR unknown command '{command}': `help` in `mainstay repl` lists what there is"
    ))
}

impl Refusal {
    fn invalid(what: impl std::fmt::Display) -> Refusal {
        Refusal(format!("INVALID {what}"))
    }

    fn not_inside(command: &str) -> Refusal {
        Refusal(format!("ERR {command} cannot be used in a transaction: commit or roll back first"))
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal(match error.code() {
            Code::MergeConflict => format!("CONFLICT {}", error.keys().join(" ")),
            code => format!("{} {}", kind_word(code.kind()), error.message()),
        })
    }
}

fn kind_word(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid => "INVALID",
        ErrorKind::Conflict => "CONFLICT",
        ErrorKind::Fenced => "FENCED",
        ErrorKind::NotFound => "NOTFOUND",
        ErrorKind::Exists => "EXISTS",
        ErrorKind::WrongType => "WRONGTYPE",
        ErrorKind::HistoryTrimmed => "TRIMMED",
        ErrorKind::SessionExpired => "SESSIONEXPIRED",
        ErrorKind::ResponseEvicted => "EVICTED",
        ErrorKind::TooLarge => "TOOLARGE",
        ErrorKind::Unsupported => "UNSUPPORTED",
        ErrorKind::ReadOnly => "READONLY",
        ErrorKind::Unavailable | ErrorKind::Closed => "UNAVAILABLE",
        ErrorKind::UnknownOutcome => "UNKNOWN",
        ErrorKind::Corrupt => "CORRUPT",
        ErrorKind::TransactionActive | ErrorKind::NoTransaction => "ERR",
    }
}

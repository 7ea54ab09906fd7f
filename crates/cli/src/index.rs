//! `mainstay record index`: secondary indexes on records, which scans use automatically.

use super::call::Call;
use super::failure::{Failure, Result};
use super::field::{Field, Row};
use super::record::FieldName;
use super::reply::Reply;
use super::session::Session;
use super::shape::Shape;
use super::shapes;
use clap::{Args, Subcommand};
use std::time::Duration;

/// The polling interval of `--wait`.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What can be done with indexes.
#[derive(Debug, Subcommand)]
pub enum IndexVerb {
    /// Declare one over fields of records; shows its number
    Add(Add),
    /// Drop one; exit code 1 if there is none
    Drop {
        /// Its number
        id: u32,
    },
    /// List all indexes: from which revision on they serve, and how many records were looked at to fill them
    List,
}

/// Declaring an index.
#[derive(Debug, Args)]
pub struct Add {
    /// Over records whose keys begin with this; "" for all
    prefix: String,
    /// Over these fields, the first one first
    #[arg(required = true)]
    fields: Vec<FieldName>,
    /// Wait until what was written before is filled in. A server fills it beside writers; a directory only while
    /// somebody has it open
    #[arg(long)]
    wait: bool,
}

impl IndexVerb {
    pub fn run(self, session: &mut Session) -> Result<()> {
        match self {
            IndexVerb::Add(add) => add.run(session),
            IndexVerb::Drop { id } => drop_one(session, id),
            IndexVerb::List => {
                let reply = all(session)?;
                session.show(shapes::INDEXES, Row::new(), reply, String::new)
            }
        }
    }
}

impl Add {
    fn call(&self) -> Call {
        let call = Call::new("REC.INDEX").word("ADD").word(&self.prefix);
        self.fields.iter().fold(call, Call::word)
    }

    fn run(self, session: &mut Session) -> Result<()> {
        let reply = session.store_to_write()?.call(self.call().words())?;
        if self.wait {
            wait_for(session, &reply)?;
        }
        let prefix = vec![("prefix".into(), Field::text(&self.prefix))];
        session.show(Shape::One("id"), prefix, reply, String::new)
    }
}

fn all(session: &mut Session) -> Result<Reply> {
    session.store()?.call(Call::new("REC.INDEX").word("LIST").words())
}

/// Polls until an index is ready, or was dropped by another client.
fn wait_for(session: &mut Session, id: &Reply) -> Result<()> {
    loop {
        let Reply::Array(rows) = all(session)? else {
            return Err(Failure::error("REC.INDEX LIST answered no list"));
        };
        if !rows.iter().any(|row| is_being_filled(row, id)) {
            return Ok(());
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// True if a row describes the index `id` and the index is not ready yet.
fn is_being_filled(row: &Reply, id: &Reply) -> bool {
    matches!(row, Reply::Array(row) if row.first() == Some(id) && row.get(3) == Some(&Reply::Nil))
}

fn drop_one(session: &mut Session, id: u32) -> Result<()> {
    let call = Call::new("REC.INDEX").word("DROP").word(id.to_string());
    let reply = session.store()?.call(call.words())?;
    let missing = || format!("there is no index {id}: `mainstay record index list` lists them");
    let number = vec![("id".into(), Field::number(id.into()))];
    session.show(Shape::Did("dropped"), number, reply, missing)
}

//! `mainstay record index`: secondary indexes on records, which scans use automatically.

use super::command_builder::CommandBuilder;
use super::context::Context;
use super::failure::{Failure, Result};
use super::field::{Field, Row};
use super::record::FieldName;
use super::reply::Reply;
use super::reply_format::ReplyFormat;
use super::reply_formats;
use clap::{Args, Subcommand};
use std::time::Duration;

/// The polling interval of `--wait`.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

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
    pub fn run(self, context: &mut Context) -> Result<()> {
        match self {
            IndexVerb::Add(add) => add.run(context),
            IndexVerb::Drop { id } => drop_index(context, id),
            IndexVerb::List => {
                let reply = request_list(context)?;
                context.show(reply_formats::INDEXES, Row::new(), reply, String::new)
            }
        }
    }
}

impl Add {
    fn call(&self) -> CommandBuilder {
        let call = CommandBuilder::new("REC.INDEX").word("ADD").word(&self.prefix);
        self.fields.iter().fold(call, CommandBuilder::word)
    }

    fn run(self, context: &mut Context) -> Result<()> {
        let reply = context.store_to_write()?.call(self.call().words())?;
        if self.wait {
            wait_for(context, &reply)?;
        }
        let prefix = vec![("prefix".into(), Field::text(&self.prefix))];
        context.show(ReplyFormat::One("id"), prefix, reply, String::new)
    }
}

fn request_list(context: &mut Context) -> Result<Reply> {
    context.store()?.call(CommandBuilder::new("REC.INDEX").word("LIST").words())
}

/// Polls until an index is ready, or was dropped by another client.
fn wait_for(context: &mut Context, id: &Reply) -> Result<()> {
    loop {
        let Reply::Array(rows) = request_list(context)? else {
            return Err(Failure::error("REC.INDEX LIST answered no list"));
        };
        if !rows.iter().any(|row| is_being_filled(row, id)) {
            return Ok(());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// True if a row describes the index `id` and the index is not ready yet.
fn is_being_filled(row: &Reply, id: &Reply) -> bool {
    matches!(row, Reply::Array(row) if row.first() == Some(id) && row.get(3) == Some(&Reply::Nil))
}

fn drop_index(context: &mut Context, id: u32) -> Result<()> {
    let call = CommandBuilder::new("REC.INDEX").word("DROP").word(id.to_string());
    let reply = context.store()?.call(call.words())?;
    let missing = || format!("there is no index {id}: `mainstay record index list` lists them");
    let number = vec![("id".into(), Field::number(id.into()))];
    context.show(ReplyFormat::Flag("dropped"), number, reply, missing)
}

//! `mainstay branch`: forks, compares and merges branches.

use super::args::AsOf;
use super::command_builder::CommandBuilder;
use super::context::Context;
use super::failure::{Failure, NEGATIVE, Result};
use super::field::{Field, Row, name_row};
use super::output::RawFields;
use super::reply::Reply;
use super::reply_format::{FormattedReply, ReplyFormat};
use super::reply_formats;
use clap::{Args, Subcommand, ValueEnum};

/// What can be done with branches.
#[derive(Debug, Subcommand)]
pub enum BranchVerb {
    /// Make a branch; shows the revision it starts at
    Fork(Fork),
    /// List all branches
    List,
    /// Show what is known of a branch
    Info {
        /// The branch
        name: String,
    },
    /// Delete a branch; exit code 1 if there is none
    Delete {
        /// The branch
        name: String,
    },
    /// Show the keys that two branches do not agree on; exit code 0 either way
    Diff {
        /// One branch
        a: String,
        /// The other
        b: String,
    },
    /// Bring the changes of one branch into another; exit code 1 on a conflict
    Merge(Merge),
    /// In the repl: work on this branch from here on
    Use {
        /// The branch
        name: String,
    },
}

/// Making a branch.
#[derive(Debug, Args)]
pub struct Fork {
    /// The new branch
    name: String,
    /// The branch it starts as
    #[arg(long, value_name = "BRANCH", default_value = mainstay::MAIN)]
    from: String,
    #[command(flatten)]
    as_of: AsOf,
}

/// Merging two branches.
#[derive(Debug, Args)]
pub struct Merge {
    /// The branch whose changes are wanted
    from: String,
    /// The branch that receives them
    #[arg(default_value = mainstay::MAIN)]
    into: String,
    /// What happens where both changed the same key
    #[arg(long, default_value = "strict")]
    strategy: Strategy,
}

/// What a merge does with keys that both sides changed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Strategy {
    /// Change nothing and list the keys
    Strict,
    /// FROM wins
    Theirs,
    /// INTO wins
    Ours,
}

impl BranchVerb {
    pub fn run(self, context: &mut Context) -> Result<()> {
        match self {
            BranchVerb::Fork(fork) => fork.run(context),
            BranchVerb::List => list(context),
            BranchVerb::Info { name } => info(context, &name),
            BranchVerb::Delete { name } => delete(context, &name),
            BranchVerb::Diff { a, b } => diff(context, &a, &b),
            BranchVerb::Merge(merge) => merge.run(context),
            BranchVerb::Use { name } => use_branch(context, &name),
        }
    }
}

impl Fork {
    fn run(self, context: &mut Context) -> Result<()> {
        let call =
            CommandBuilder::new("BRANCH.FORK").word(&self.name).option("FROM", Some(&self.from));
        let reply = context.store_to_write()?.call(self.as_of.add_to(call).words())?;
        context.show(ReplyFormat::One("revision"), name_row(&self.name), reply, String::new)
    }
}

impl Merge {
    fn run(self, context: &mut Context) -> Result<()> {
        let strategy = match self.strategy {
            Strategy::Strict => "STRICT",
            Strategy::Theirs => "THEIRS",
            Strategy::Ours => "OURS",
        };
        let from = &self.from;
        let into = &self.into;
        let call = CommandBuilder::new("BRANCH.MERGE").word(from).word(into).word(strategy);
        let reply = context.store()?.call(call.words());
        let reply =
            reply.map_err(|failure| match failure.to_string().strip_prefix("CONFLICT ") {
                Some(keys) if failure.code() == NEGATIVE => Failure::negative(format!(
                    "CONFLICT {from} and {into} both changed {keys}: nothing was merged; see \
                 `mainstay branch diff {into} {from}`, then choose --strategy theirs ({from} wins) \
                 or ours ({into} wins)"
                )),
                _ => failure,
            })?;
        let known = vec![("from".into(), Field::text(from)), ("into".into(), Field::text(into))];
        context.show(ReplyFormat::One("revision"), known, reply, String::new)
    }
}

/// Lists the branches. Details take one `BRANCH.INFO` call per branch, because `BRANCH.LIST` returns only
/// names.
fn list(context: &mut Context) -> Result<()> {
    let reply = context.store()?.call(CommandBuilder::new("BRANCH.LIST").words())?;
    let Reply::Array(names) = reply else {
        return Err(Failure::error(format!("BRANCH.LIST answered {reply:?}")));
    };
    for name in names {
        let Reply::Text(name) = name else { continue };
        let call = CommandBuilder::new("BRANCH.INFO").word(&name);
        match context.store()?.call(call.words()) {
            Ok(reply) => match ReplyFormat::Object.apply(reply, false) {
                FormattedReply::One(row) => context.printer.row(row),
                odd => return Err(Failure::error(format!("BRANCH.INFO answered {odd:?}"))),
            },
            // The branch was deleted since it was listed.
            Err(failure) if failure.code() == NEGATIVE => {}
            Err(failure) => return Err(failure),
        }
    }
    context.printer.finish();
    Ok(())
}

fn info(context: &mut Context, name: &str) -> Result<()> {
    let reply = context.store()?.call(CommandBuilder::new("BRANCH.INFO").word(name).words())?;
    context.show(ReplyFormat::Object, Row::new(), reply, || format!("there is no branch {name}"))
}

fn delete(context: &mut Context, name: &str) -> Result<()> {
    let reply = context.store()?.call(CommandBuilder::new("BRANCH.DELETE").word(name).words())?;
    context.show(ReplyFormat::Flag("deleted"), name_row(name), reply, || {
        format!("there is no branch {name}: `mainstay branch list` lists them")
    })
}

/// Compares two branches, and replaces `a` and `b` by the names of the branches.
fn diff(context: &mut Context, a: &str, b: &str) -> Result<()> {
    let reply =
        context.store()?.call(CommandBuilder::new("BRANCH.DIFF").word(a).word(b).words())?;
    let mut shown = reply_formats::of_command("BRANCH.DIFF").apply(reply, false);
    if let FormattedReply::Many(rows) = &mut shown {
        let fields = rows.iter_mut().flatten().filter(|(name, _)| name == "changed_by");
        for (_, field) in fields {
            match &*field.raw() {
                b"a" => *field = Field::text(a),
                b"b" => *field = Field::text(b),
                _ => {}
            }
        }
    }
    context.printer.result(shown, Row::new(), RawFields::All);
    Ok(())
}

fn use_branch(context: &mut Context, name: &str) -> Result<()> {
    if !context.interactive {
        return Err(Failure::error(format!(
            "`branch use` lasts as long as a repl: elsewhere give --branch {name} to each command"
        )));
    }
    context.store()?.call(CommandBuilder::new("BRANCH.USE").word(name).words())?;
    context.printer.note(&format!("on branch {name}"));
    Ok(())
}

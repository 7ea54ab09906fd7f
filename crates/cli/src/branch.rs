//! `mainstay branch`: forks, compares and merges branches.

use super::args::Moment;
use super::call::Call;
use super::failure::{Failure, NOT_HELD, Result};
use super::field::{Field, Row, named};
use super::output::Bare;
use super::reply::Reply;
use super::session::Session;
use super::shape::{Shape, Shown};
use super::shapes;
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
    moment: Moment,
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
    pub fn run(self, session: &mut Session) -> Result<()> {
        match self {
            BranchVerb::Fork(fork) => fork.run(session),
            BranchVerb::List => list(session),
            BranchVerb::Info { name } => info(session, &name),
            BranchVerb::Delete { name } => delete(session, &name),
            BranchVerb::Diff { a, b } => diff(session, &a, &b),
            BranchVerb::Merge(merge) => merge.run(session),
            BranchVerb::Use { name } => use_branch(session, &name),
        }
    }
}

impl Fork {
    fn run(self, session: &mut Session) -> Result<()> {
        let call = Call::new("BRANCH.FORK").word(&self.name).option("FROM", Some(&self.from));
        let reply = session.store_to_write()?.call(self.moment.on(call).words())?;
        session.show(Shape::One("revision"), named(&self.name), reply, String::new)
    }
}

impl Merge {
    fn run(self, session: &mut Session) -> Result<()> {
        let strategy = match self.strategy {
            Strategy::Strict => "STRICT",
            Strategy::Theirs => "THEIRS",
            Strategy::Ours => "OURS",
        };
        let from = &self.from;
        let into = &self.into;
        let call = Call::new("BRANCH.MERGE").word(from).word(into).word(strategy);
        let reply = session.store()?.call(call.words());
        let reply =
            reply.map_err(|failure| match failure.to_string().strip_prefix("CONFLICT ") {
                Some(keys) if failure.code() == NOT_HELD => Failure::not_held(format!(
                    "CONFLICT {from} and {into} both changed {keys}: nothing was merged; see \
                 `mainstay branch diff {into} {from}`, then choose --strategy theirs ({from} wins) \
                 or ours ({into} wins)"
                )),
                _ => failure,
            })?;
        let known = vec![("from".into(), Field::text(from)), ("into".into(), Field::text(into))];
        session.show(Shape::One("revision"), known, reply, String::new)
    }
}

/// Lists the branches. Details take one `BRANCH.INFO` call per branch, because `BRANCH.LIST` returns only
/// names.
fn list(session: &mut Session) -> Result<()> {
    let reply = session.store()?.call(Call::new("BRANCH.LIST").words())?;
    let Reply::Array(names) = reply else {
        return Err(Failure::error(format!("BRANCH.LIST answered {reply:?}")));
    };
    for name in names {
        let Reply::Text(name) = name else { continue };
        let call = Call::new("BRANCH.INFO").word(&name);
        match session.store()?.call(call.words()) {
            Ok(reply) => match Shape::Object.show(reply, false) {
                Shown::One(row) => session.printer.row(row),
                odd => return Err(Failure::error(format!("BRANCH.INFO answered {odd:?}"))),
            },
            // The branch was deleted since it was listed.
            Err(failure) if failure.code() == NOT_HELD => {}
            Err(failure) => return Err(failure),
        }
    }
    session.printer.finish();
    Ok(())
}

fn info(session: &mut Session, name: &str) -> Result<()> {
    let reply = session.store()?.call(Call::new("BRANCH.INFO").word(name).words())?;
    session.show(Shape::Object, Row::new(), reply, || format!("there is no branch {name}"))
}

fn delete(session: &mut Session, name: &str) -> Result<()> {
    let reply = session.store()?.call(Call::new("BRANCH.DELETE").word(name).words())?;
    session.show(Shape::Did("deleted"), named(name), reply, || {
        format!("there is no branch {name}: `mainstay branch list` lists them")
    })
}

/// Compares two branches, and replaces `a` and `b` by the names of the branches.
fn diff(session: &mut Session, a: &str, b: &str) -> Result<()> {
    let reply = session.store()?.call(Call::new("BRANCH.DIFF").word(a).word(b).words())?;
    let mut shown = shapes::shape("BRANCH.DIFF").show(reply, false);
    if let Shown::Many(rows) = &mut shown {
        let fields = rows.iter_mut().flatten().filter(|(name, _)| name == "changed_by");
        for (_, field) in fields {
            match &*field.raw() {
                b"a" => *field = Field::text(a),
                b"b" => *field = Field::text(b),
                _ => {}
            }
        }
    }
    session.printer.shown(shown, Row::new(), Bare::All);
    Ok(())
}

fn use_branch(session: &mut Session, name: &str) -> Result<()> {
    if !session.interactive {
        return Err(Failure::error(format!(
            "`branch use` lasts as long as a repl: elsewhere give --branch {name} to each command"
        )));
    }
    session.store()?.call(Call::new("BRANCH.USE").word(name).words())?;
    session.printer.note(&format!("on branch {name}"));
    Ok(())
}

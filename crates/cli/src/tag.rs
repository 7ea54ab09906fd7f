//! `mainstay tag`: revisions pinned by name.

use super::args::{Moment, OnBranch};
use super::call::Call;
use super::failure::Result;
use super::field::{Row, named};
use super::session::Session;
use super::shape::Shape;
use super::shapes;
use clap::{Args, Subcommand};

/// What can be done with tags.
#[derive(Debug, Subcommand)]
pub enum TagVerb {
    /// Pin a revision; shows which
    Set(SetTag),
    /// Remove a tag; exit code 1 if there is none
    Delete {
        /// The tag
        name: String,
    },
    /// List all tags
    List,
}

/// Pinning a revision.
#[derive(Debug, Args)]
pub struct SetTag {
    /// The tag
    name: String,
    #[command(flatten)]
    on: OnBranch,
    #[command(flatten)]
    moment: Moment,
}

impl TagVerb {
    pub fn run(self, session: &mut Session) -> Result<()> {
        match self {
            TagVerb::Set(set) => set.run(session),
            TagVerb::Delete { name } => delete(session, &name),
            TagVerb::List => list(session),
        }
    }
}

impl SetTag {
    fn run(self, session: &mut Session) -> Result<()> {
        let call = self.moment.on(Call::new("TAG.SET").word(&self.name));
        let on = self.on.branch.as_deref();
        let reply = session.store_to_write()?.on(on, |store| store.call(call.words()))?;
        session.show(Shape::One("revision"), named(&self.name), reply, String::new)
    }
}

fn delete(session: &mut Session, name: &str) -> Result<()> {
    let reply = session.store()?.call(Call::new("TAG.DEL").word(name).words())?;
    session.show(Shape::Did("deleted"), named(name), reply, || {
        format!("there is no tag {name}: `mainstay tag list` lists them")
    })
}

fn list(session: &mut Session) -> Result<()> {
    let reply = session.store()?.call(Call::new("TAG.LIST").words())?;
    session.show(shapes::shape("TAG.LIST"), Row::new(), reply, String::new)
}

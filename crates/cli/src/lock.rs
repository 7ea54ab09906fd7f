//! `mainstay lock`: exclusive locks with a lease.

use super::args::OnBranch;
use super::call::Call;
use super::cell::{read, write};
use super::failure::Result;
use super::field::named;
use super::session::Session;
use super::shape::Shape;
use super::{shapes, time};
use clap::{Args, Subcommand};

/// What can be done with locks.
#[derive(Debug, Subcommand)]
pub enum LockVerb {
    /// Take a lock; shows its token; exit code 1 while another owner has it
    Take(Take),
    /// Hold a lock on; exit code 1 if it is held no more
    Renew(Renew),
    /// Give a lock back; exit code 1 if nobody had it, or another
    Free(Free),
    /// Show who has a lock; exit code 1 if nobody has
    Show(Show),
}

/// Taking a lock.
#[derive(Debug, Args)]
pub struct Take {
    /// The lock
    name: String,
    /// Who takes it
    #[arg(long)]
    owner: String,
    /// How long it is held: milliseconds, or a span such as 30s
    #[arg(short, long, value_name = "SPAN", value_parser = time::span_ms, default_value = "30s")]
    lease: u64,
    #[command(flatten)]
    on: OnBranch,
}

/// Holding a lock on.
#[derive(Debug, Args)]
pub struct Renew {
    /// The lock
    name: String,
    /// What taking it gave
    token: u64,
    /// How long it is held from now on: milliseconds, or a span such as 30s
    #[arg(short, long, value_name = "SPAN", value_parser = time::span_ms, default_value = "30s")]
    lease: u64,
    #[command(flatten)]
    on: OnBranch,
}

/// Giving a lock back.
#[derive(Debug, Args)]
pub struct Free {
    /// The lock
    name: String,
    /// What taking it gave
    token: u64,
    #[command(flatten)]
    on: OnBranch,
}

/// Looking at a lock.
#[derive(Debug, Args)]
pub struct Show {
    /// The lock
    name: String,
    #[command(flatten)]
    on: OnBranch,
}

impl LockVerb {
    pub fn run(self, session: &mut Session) -> Result<()> {
        match self {
            LockVerb::Take(take) => take.run(session),
            LockVerb::Renew(renew) => renew.run(session),
            LockVerb::Free(free) => free.run(session),
            LockVerb::Show(show) => show.run(session),
        }
    }
}

impl Take {
    fn run(self, session: &mut Session) -> Result<()> {
        let call = Call::new("LOCK.TAKE").word(&self.name).word("OWNER").word(&self.owner);
        let reply = write(session, &self.on, call.option("LEASE", Some(self.lease)))?;
        let missing =
            || format!("another owner has the lock {0}: `mainstay lock show {0}`", self.name);
        session.show(Shape::One("token"), named(&self.name), reply, missing)
    }
}

impl Renew {
    fn run(self, session: &mut Session) -> Result<()> {
        let call = Call::new("LOCK.RENEW").word(&self.name).word(self.token.to_string());
        let reply = write(session, &self.on, call.option("LEASE", Some(self.lease)))?;
        session.show(Shape::Did("held"), named(&self.name), reply, String::new)
    }
}

impl Free {
    fn run(self, session: &mut Session) -> Result<()> {
        let call = Call::new("LOCK.FREE").word(&self.name).word(self.token.to_string());
        let reply = write(session, &self.on, call)?;
        session.show(Shape::Did("freed"), named(&self.name), reply, || {
            format!("nobody has the lock {}", self.name)
        })
    }
}

impl Show {
    fn run(self, session: &mut Session) -> Result<()> {
        let reply = read(session, &self.on, Call::new("LOCK.GET").word(&self.name))?;
        session.show(shapes::shape("LOCK.GET"), named(&self.name), reply, || {
            format!("nobody has the lock {}", self.name)
        })
    }
}

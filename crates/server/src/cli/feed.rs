//! `mainstay feed`: committed changes, in order.

use super::call::Call;
use super::failure::{Failure, Result};
use super::field::Row;
use super::session::Session;
use super::shape::Shown;
use super::shapes;
use clap::Args;

/// How many changes are asked for at once.
const PAGE: u64 = 1000;
/// How long a server is asked to wait for the next change; well within the time an answer may take.
const WAIT_MS: u64 = 1000;

/// Reading the feed.
#[derive(Debug, Args)]
pub struct Feed {
    /// Only changes after this revision [default: everything that is kept]
    #[arg(long, value_name = "REVISION")]
    after: Option<u64>,
    /// Only keys that begin with this
    #[arg(long)]
    prefix: Option<String>,
    /// Only changes on this branch
    #[arg(short, long, value_name = "NAME")]
    branch: Option<String>,
    /// Go on: wait for further changes, until interrupted
    #[arg(short, long)]
    follow: bool,
}

impl Feed {
    /// Shows page after page; what follows comes as it happens.
    pub fn run(mut self, session: &mut Session) -> Result<()> {
        let mut waits = false;
        loop {
            let rows = self.page(session, waits)?;
            let ended = rows.is_empty();
            self.after = rows.last().and_then(revision).or(self.after);
            let wanted = rows.into_iter().filter(|row| self.wants(row));
            wanted.for_each(|row| session.printer.row(row));
            if self.follow {
                // What there is stands before the waiting begins.
                session.printer.flush();
            }
            if session.printer.is_closed() || (ended && !self.follow) {
                break;
            }
            waits = ended;
        }
        session.printer.finish();
        Ok(())
    }

    fn page(&self, session: &mut Session, waits: bool) -> Result<Vec<Row>> {
        let call = Call::new("FEED.READ").option("AFTER", self.after);
        let call = call.option("PREFIX", self.prefix.as_ref()).option("LIMIT", Some(PAGE));
        let call = call.option("WAIT", waits.then_some(WAIT_MS));
        let reply = session.store()?.call(call.words())?;
        match shapes::shape("FEED.READ").show(reply, false) {
            Shown::Many(rows) => Ok(rows),
            odd => Err(Failure::error(format!("FEED.READ answered {odd:?}"))),
        }
    }

    fn wants(&self, row: &Row) -> bool {
        let Some(branch) = &self.branch else { return true };
        row.iter().any(|(name, field)| name == "branch" && *field.raw() == *branch.as_bytes())
    }
}

fn revision(row: &Row) -> Option<u64> {
    let raw = row.iter().find(|(name, _)| name == "revision")?.1.raw().into_owned();
    String::from_utf8(raw).ok()?.parse().ok()
}

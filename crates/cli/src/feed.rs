//! `mainstay feed`: committed changes, in order.

use super::command_builder::CommandBuilder;
use super::context::Context;
use super::failure::{Failure, Result};
use super::field::Row;
use super::interrupt;
use super::reply_format::FormattedReply;
use super::reply_formats;
use clap::Args;
use std::sync::atomic::Ordering;

/// The number of changes per request.
const PAGE: u64 = 1000;
/// The time that a server waits for the next change; it must be well below the reply timeout.
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
    /// Shows page after page; with `--follow` also new changes. In the repl, Ctrl-C ends the feed and not the
    /// repl.
    pub fn run(self, context: &mut Context) -> Result<()> {
        if self.follow && context.interactive {
            interrupt::with_stop_flag(|stop| self.pages(context, || stop.load(Ordering::Relaxed)))
        } else {
            self.pages(context, || false)
        }
    }

    fn pages(mut self, context: &mut Context, is_stopped: impl Fn() -> bool) -> Result<()> {
        let mut waits = false;
        loop {
            let rows = self.page(context, waits)?;
            let ended = rows.is_empty();
            self.after = rows.last().and_then(revision).or(self.after);
            let wanted = rows.into_iter().filter(|row| self.is_on_branch(row));
            wanted.for_each(|row| context.printer.row(row));
            if self.follow {
                // Print the available changes before the next request blocks.
                context.printer.flush();
            }
            if context.printer.is_closed() || is_stopped() || (ended && !self.follow) {
                break;
            }
            waits = ended;
        }
        if !self.follow {
            context.printer.finish();
        }
        Ok(())
    }

    /// Requests the next page. Without `--after`, the feed starts at the oldest change that is kept.
    fn page(&mut self, context: &mut Context, waits: bool) -> Result<Vec<Row>> {
        match self.request(context, waits) {
            Err(failure) if failure.is_of_kind("TRIMMED") => {
                let before = before_oldest(&failure);
                if self.after.is_some() || before.is_none() {
                    return Err(trimmed_hint(failure, before));
                }
                self.after = before;
                self.request(context, waits)
            }
            result => result,
        }
    }

    fn request(&self, context: &mut Context, waits: bool) -> Result<Vec<Row>> {
        let call = CommandBuilder::new("FEED.READ").option("AFTER", self.after);
        let call = call.option("PREFIX", self.prefix.as_ref()).option("LIMIT", Some(PAGE));
        let call = call.option("WAIT", waits.then_some(WAIT_MS));
        let reply = context.store()?.call(call.words())?;
        match reply_formats::of_command("FEED.READ").apply(reply, false) {
            FormattedReply::Many(rows) => Ok(rows),
            odd => Err(Failure::error(format!("FEED.READ answered {odd:?}"))),
        }
    }

    fn is_on_branch(&self, row: &Row) -> bool {
        let Some(branch) = &self.branch else { return true };
        row.iter().any(|(name, field)| name == "branch" && *field.raw() == *branch.as_bytes())
    }
}

/// The revision before the oldest that is kept. The last word of a `TRIMMED` error is the oldest.
fn before_oldest(failure: &Failure) -> Option<u64> {
    let oldest: u64 = failure.to_string().rsplit(' ').next()?.parse().ok()?;
    Some(oldest.saturating_sub(1))
}

fn trimmed_hint(failure: Failure, before: Option<u64>) -> Failure {
    match before {
        Some(before) => {
            failure.hint(&format!("what came before that is gone; go on with --after {before}"))
        }
        None => failure.hint("without --after it begins with the oldest that is kept"),
    }
}

fn revision(row: &Row) -> Option<u64> {
    let raw = row.iter().find(|(name, _)| name == "revision")?.1.raw().into_owned();
    String::from_utf8(raw).ok()?.parse().ok()
}

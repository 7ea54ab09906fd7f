//! Pagination of keys, states and items. A page may be short because of its size, so only an empty page, or
//! one without a cursor, is the last. Keys may be any bytes.

use super::super::args::AsOf;
use super::super::cell::read;
use super::super::command_builder::CommandBuilder;
use super::super::context::Context;
use super::super::failure::{Failure, Result};
use super::super::reply::Reply;
use super::super::reply_format::FormattedReply;
use super::super::reply_formats;
use super::super::store::OpenTransaction;
use super::{SpaceArgs, key, key_text};
use clap::Args;

/// The number of rows per request.
const PAGE: u64 = 1000;

/// Listing keys.
#[derive(Debug, Args)]
pub struct Keys {
    #[command(flatten)]
    space: SpaceArgs,
    /// Only keys that begin with this; bytes that are no text are `$bytes:` and base64
    #[arg(default_value = "")]
    prefix: String,
    #[command(flatten)]
    page: PageArgs,
}

/// Reading a log.
#[derive(Debug, Args)]
pub struct Items {
    #[command(flatten)]
    space: SpaceArgs,
    /// The key; bytes that are no text are `$bytes:` and base64
    #[arg(id = "state_key", value_name = "KEY")]
    key: String,
    #[command(flatten)]
    page: PageArgs,
}

/// How many are shown, and of when.
#[derive(Debug, Args)]
struct PageArgs {
    /// Only what is behind this one
    #[arg(long, value_name = "KEY")]
    after: Option<String>,
    /// At most this many
    #[arg(long)]
    limit: Option<u64>,
    #[command(flatten)]
    as_of: AsOf,
}

impl Keys {
    pub fn list(self, context: &mut Context) -> Result<()> {
        self.show(context, "STATE.LIST")
    }

    pub fn scan(self, context: &mut Context) -> Result<()> {
        self.show(context, "STATE.SCAN")
    }

    fn show(self, context: &mut Context, name: &str) -> Result<()> {
        let call = self.space.call(name).word("PREFIX").word(key(&self.prefix)?);
        self.page.show(context, &self.space, name, &call)
    }
}

impl Items {
    pub fn run(self, context: &mut Context) -> Result<()> {
        let call = self.space.call("STATE.ITEMS").word(key(&self.key)?);
        self.page.show(context, &self.space, "STATE.ITEMS", &call)
    }
}

impl PageArgs {
    /// Prints all pages, at one revision if the list can have several pages.
    fn show(
        mut self,
        context: &mut Context,
        space: &SpaceArgs,
        name: &str,
        call: &CommandBuilder,
    ) -> Result<()> {
        context.store()?;
        let mut after = self.after.as_deref().map(key).transpose()?;
        let mut remaining = self.limit.unwrap_or(u64::MAX);
        if remaining > PAGE {
            self.pin(context)?;
        }
        while remaining > 0 && !context.printer.is_closed() {
            let asked =
                after.iter().fold(call.clone(), |call, after| call.word("AFTER").word(after));
            let asked = self.as_of.add_to(asked.option("LIMIT", Some(remaining.min(PAGE))));
            let reply = read(context, &space.on, asked)?;
            after = next_cursor(&reply);
            let rows = match reply_formats::of_command(name).apply(with_key_texts(reply), false) {
                FormattedReply::Many(rows) => rows,
                odd => return Err(Failure::error(format!("{name} answered {odd:?}"))),
            };
            remaining -= (rows.len() as u64).min(remaining);
            rows.into_iter().for_each(|row| context.printer.row(row));
            if after.is_none() {
                break;
            }
        }
        context.printer.finish();
        Ok(())
    }

    /// Pins the list to the newest revision.
    fn pin(&mut self, context: &mut Context) -> Result<()> {
        let pinned = self.as_of.rev.is_some() || self.as_of.at.is_some();
        if !pinned && context.open_transaction() != Some(OpenTransaction::Interactive) {
            self.as_of.rev = Some(context.revision()?);
        }
        Ok(())
    }
}

/// The cursor for the next page: from the reply, or the key or id of its last row.
fn next_cursor(reply: &Reply) -> Option<Vec<u8>> {
    let Reply::Array(rows) = reply else { return None };
    if let [next @ (Reply::Text(_) | Reply::Nil), Reply::Array(_)] = rows.as_slice() {
        return text(next);
    }
    match rows.last()? {
        Reply::Array(row) => text(row.first()?),
        key => text(key),
    }
}

/// Replaces keys and ids in a reply by their text form.
pub(super) fn with_key_texts(reply: Reply) -> Reply {
    let Reply::Array(mut rows) = reply else { return reply };
    if let [Reply::Text(_) | Reply::Nil, Reply::Array(_)] = rows.as_slice() {
        let page = rows.pop().map(with_key_texts);
        rows.extend(page);
        return Reply::Array(rows);
    }
    for row in &mut rows {
        let key = match row {
            Reply::Array(row) => row.first_mut(),
            key => Some(key),
        };
        if let Some(Reply::Text(key)) = key {
            *key = key_text(key).into_bytes();
        }
    }
    Reply::Array(rows)
}

fn text(reply: &Reply) -> Option<Vec<u8>> {
    match reply {
        Reply::Text(text) => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_begins_behind_the_last_row() {
        let text = |text: &str| Reply::text(text);
        let row = |key: &str| Reply::Array(vec![text(key), text("v")]);
        let keys = Reply::Array(vec![text("a"), text("b")]);
        assert_eq!(next_cursor(&keys), Some(b"b".to_vec()));
        let items = Reply::Array(vec![row("1"), row("2")]);
        assert_eq!(next_cursor(&items), Some(b"2".to_vec()));
        let page = |next| Reply::Array(vec![next, Reply::Array(vec![row("a")])]);
        assert_eq!(next_cursor(&page(text("a"))), Some(b"a".to_vec()));
        assert_eq!(next_cursor(&page(Reply::Nil)), None);
        assert_eq!(next_cursor(&Reply::Array(Vec::new())), None);
    }

    #[test]
    fn keys_are_shown_as_they_are_given_back() {
        let bytes = |bytes: &[u8]| Reply::Text(bytes.to_vec());
        let row = |key: &[u8]| Reply::Array(vec![bytes(key), bytes(b"\x00")]);
        let shown = |key: &str| Reply::Array(vec![Reply::text(key), bytes(b"\x00")]);
        for (key, text) in
            [(&b"a"[..], "a"), (&[0, 255], "$bytes:AP8="), (b"$bytes:", "$bytes:JGJ5dGVzOg==")]
        {
            assert_eq!(super::super::key(text).unwrap(), key);
            let keys = with_key_texts(Reply::Array(vec![bytes(key)]));
            assert_eq!(keys, Reply::Array(vec![Reply::text(text)]));
            let rows = with_key_texts(Reply::Array(vec![row(key)]));
            assert_eq!(rows, Reply::Array(vec![shown(text)]));
            let page = |row| Reply::Array(vec![Reply::Nil, Reply::Array(vec![row])]);
            assert_eq!(with_key_texts(page(row(key))), page(shown(text)));
        }
    }
}

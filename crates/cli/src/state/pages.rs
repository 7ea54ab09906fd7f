//! Pagination of keys, states and items. A page may be short because of its size, so only an empty page, or
//! one without a cursor, is the last. Keys may be any bytes.

use super::super::args::Moment;
use super::super::call::Call;
use super::super::cell::read;
use super::super::failure::{Failure, Result};
use super::super::reply::Reply;
use super::super::session::Session;
use super::super::shape::Shown;
use super::super::shapes;
use super::super::store::Begun;
use super::{Which, key, shown_key};
use clap::Args;

/// The number of rows per request.
const PAGE: u64 = 1000;

/// Listing keys.
#[derive(Debug, Args)]
pub struct Keys {
    #[command(flatten)]
    space: Which,
    /// Only keys that begin with this; bytes that are no text are `$bytes:` and base64
    #[arg(default_value = "")]
    prefix: String,
    #[command(flatten)]
    wanted: Wanted,
}

/// Reading a log.
#[derive(Debug, Args)]
pub struct Items {
    #[command(flatten)]
    space: Which,
    /// The key; bytes that are no text are `$bytes:` and base64
    #[arg(id = "state_key", value_name = "KEY")]
    key: String,
    #[command(flatten)]
    wanted: Wanted,
}

/// How many are shown, and of when.
#[derive(Debug, Args)]
struct Wanted {
    /// Only what is behind this one
    #[arg(long, value_name = "KEY")]
    after: Option<String>,
    /// At most this many
    #[arg(long)]
    limit: Option<u64>,
    #[command(flatten)]
    moment: Moment,
}

impl Keys {
    pub fn list(self, session: &mut Session) -> Result<()> {
        self.show(session, "STATE.LIST")
    }

    pub fn scan(self, session: &mut Session) -> Result<()> {
        self.show(session, "STATE.SCAN")
    }

    fn show(self, session: &mut Session, name: &str) -> Result<()> {
        let call = self.space.call(name).word("PREFIX").word(key(&self.prefix)?);
        self.wanted.show(session, &self.space, name, &call)
    }
}

impl Items {
    pub fn run(self, session: &mut Session) -> Result<()> {
        let call = self.space.call("STATE.ITEMS").word(key(&self.key)?);
        self.wanted.show(session, &self.space, "STATE.ITEMS", &call)
    }
}

impl Wanted {
    /// Prints all pages, at one revision if the list can have several pages.
    fn show(mut self, session: &mut Session, space: &Which, name: &str, call: &Call) -> Result<()> {
        session.store()?;
        let mut after = self.after.as_deref().map(key).transpose()?;
        let mut left = self.limit.unwrap_or(u64::MAX);
        if left > PAGE {
            self.pin(session)?;
        }
        while left > 0 && !session.printer.is_closed() {
            let asked =
                after.iter().fold(call.clone(), |call, after| call.word("AFTER").word(after));
            let asked = self.moment.on(asked.option("LIMIT", Some(left.min(PAGE))));
            let reply = read(session, &space.on, asked)?;
            after = last_of(&reply);
            let rows = match shapes::shape(name).show(with_shown_keys(reply), false) {
                Shown::Many(rows) => rows,
                odd => return Err(Failure::error(format!("{name} answered {odd:?}"))),
            };
            left -= (rows.len() as u64).min(left);
            rows.into_iter().for_each(|row| session.printer.row(row));
            if after.is_none() {
                break;
            }
        }
        session.printer.finish();
        Ok(())
    }

    /// Pins the list to the newest revision.
    fn pin(&mut self, session: &mut Session) -> Result<()> {
        let pinned = self.moment.rev.is_some() || self.moment.at.is_some();
        if !pinned && session.begun() != Some(Begun::Transaction) {
            self.moment.rev = Some(session.revision()?);
        }
        Ok(())
    }
}

/// The cursor for the next page: from the reply, or the key or id of its last row.
fn last_of(reply: &Reply) -> Option<Vec<u8>> {
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
pub(super) fn with_shown_keys(reply: Reply) -> Reply {
    let Reply::Array(mut rows) = reply else { return reply };
    if let [Reply::Text(_) | Reply::Nil, Reply::Array(_)] = rows.as_slice() {
        let page = rows.pop().map(with_shown_keys);
        rows.extend(page);
        return Reply::Array(rows);
    }
    for row in &mut rows {
        let key = match row {
            Reply::Array(row) => row.first_mut(),
            key => Some(key),
        };
        if let Some(Reply::Text(key)) = key {
            *key = shown_key(key).into_bytes();
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
        assert_eq!(last_of(&keys), Some(b"b".to_vec()));
        let items = Reply::Array(vec![row("1"), row("2")]);
        assert_eq!(last_of(&items), Some(b"2".to_vec()));
        let page = |next| Reply::Array(vec![next, Reply::Array(vec![row("a")])]);
        assert_eq!(last_of(&page(text("a"))), Some(b"a".to_vec()));
        assert_eq!(last_of(&page(Reply::Nil)), None);
        assert_eq!(last_of(&Reply::Array(Vec::new())), None);
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
            let keys = with_shown_keys(Reply::Array(vec![bytes(key)]));
            assert_eq!(keys, Reply::Array(vec![Reply::text(text)]));
            let rows = with_shown_keys(Reply::Array(vec![row(key)]));
            assert_eq!(rows, Reply::Array(vec![shown(text)]));
            let page = |row| Reply::Array(vec![Reply::Nil, Reply::Array(vec![row])]);
            assert_eq!(with_shown_keys(page(row(key))), page(shown(text)));
        }
    }
}

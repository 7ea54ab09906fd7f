//! Pagination of long lists. Lists of versioned data are read at one revision, so that all pages are
//! consistent.

use super::args::AsOf;
use super::context::Context;
use super::failure::Result;
use super::field::Row;
use super::store::OpenTransaction;

/// The number of rows per request.
const PAGE: u64 = 1000;

/// The position in a list.
#[derive(Debug)]
pub struct Pages {
    /// The point in time of the list.
    pub as_of: AsOf,
    /// The name after which the next page starts.
    pub after: Option<String>,
    /// The number of rows that remain to be printed.
    pub remaining: u64,
    /// If set, a page with fewer rows than requested is not necessarily the last.
    byte_limited: bool,
}

impl Pages {
    /// A list at a point in time, after a name, of at most `limit` rows.
    pub fn new(as_of: AsOf, after: Option<String>, limit: Option<u64>) -> Pages {
        Pages { as_of, after, remaining: limit.unwrap_or(u64::MAX), byte_limited: false }
    }

    /// For long rows, where a byte limit can end a page early: only an empty page is the last.
    pub fn byte_limited(self) -> Pages {
        Pages { byte_limited: true, ..self }
    }

    /// Prints all rows. `page` requests one page with the current position and a number of rows; the first
    /// field of each row must be its name.
    pub fn show(
        mut self,
        context: &mut Context,
        page: impl Fn(&mut Context, &Pages, u64) -> Result<Vec<Row>>,
    ) -> Result<()> {
        context.store()?;
        while self.remaining > 0 && !context.printer.is_closed() {
            let size = self.remaining.min(PAGE);
            let mut rows = page(context, &self, size)?;
            if rows.len() as u64 == size && self.remaining > size && self.pin(context)? {
                rows = page(context, &self, size)?;
            }
            self.remaining -= (rows.len() as u64).min(self.remaining);
            let ended = rows.is_empty() || !self.byte_limited && (rows.len() as u64) < size;
            self.after = rows.last().map(first_field).or(self.after);
            rows.into_iter().for_each(|row| context.printer.row(row));
            if ended {
                break;
            }
        }
        context.printer.finish();
        Ok(())
    }

    /// Pins the list to the newest revision, once it is known to need a second page. Returns whether the
    /// current page has to be requested again. A single page is consistent by itself.
    fn pin(&mut self, context: &mut Context) -> Result<bool> {
        let pinned = self.as_of.rev.is_some() || self.as_of.at.is_some();
        if pinned || context.open_transaction() == Some(OpenTransaction::Interactive) {
            return Ok(false);
        }
        self.as_of.rev = Some(context.revision()?);
        Ok(true)
    }
}

fn first_field(row: &Row) -> String {
    let name = row.first().map(|(_, field)| field.raw().into_owned());
    String::from_utf8_lossy(&name.unwrap_or_default()).into_owned()
}

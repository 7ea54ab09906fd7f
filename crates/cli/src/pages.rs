//! Pagination of long lists. Lists of versioned data are read at one revision, so that all pages are
//! consistent.

use super::args::Moment;
use super::failure::Result;
use super::field::Row;
use super::session::Session;
use super::store::Begun;

/// The number of rows per request.
const PAGE: u64 = 1000;

/// The position in a list.
#[derive(Debug)]
pub struct Pages {
    /// The point in time of the list.
    pub moment: Moment,
    /// The name after which the next page starts.
    pub after: Option<String>,
    /// The number of rows that remain to be printed.
    pub left: u64,
    /// If set, a page with fewer rows than requested is not necessarily the last.
    cut_short: bool,
}

impl Pages {
    /// A list at a point in time, after a name, of at most `limit` rows.
    pub fn new(moment: Moment, after: Option<String>, limit: Option<u64>) -> Pages {
        Pages { moment, after, left: limit.unwrap_or(u64::MAX), cut_short: false }
    }

    /// For long rows, where a byte limit can end a page early: only an empty page is the last.
    pub fn cut_short(self) -> Pages {
        Pages { cut_short: true, ..self }
    }

    /// Prints all rows. `page` requests one page with the current position and a number of rows; the first
    /// field of each row must be its name.
    pub fn show(
        mut self,
        session: &mut Session,
        page: impl Fn(&mut Session, &Pages, u64) -> Result<Vec<Row>>,
    ) -> Result<()> {
        session.store()?;
        while self.left > 0 && !session.printer.is_closed() {
            let size = self.left.min(PAGE);
            let mut rows = page(session, &self, size)?;
            if rows.len() as u64 == size && self.left > size && self.pin(session)? {
                rows = page(session, &self, size)?;
            }
            self.left -= (rows.len() as u64).min(self.left);
            let ended = rows.is_empty() || !self.cut_short && (rows.len() as u64) < size;
            self.after = rows.last().map(first_field).or(self.after);
            rows.into_iter().for_each(|row| session.printer.row(row));
            if ended {
                break;
            }
        }
        session.printer.finish();
        Ok(())
    }

    /// Pins the list to the newest revision, once it is known to need a second page. Returns whether the
    /// current page has to be requested again. A single page is consistent by itself.
    fn pin(&mut self, session: &mut Session) -> Result<bool> {
        let pinned = self.moment.rev.is_some() || self.moment.at.is_some();
        if pinned || session.begun() == Some(Begun::Transaction) {
            return Ok(false);
        }
        self.moment.rev = Some(session.revision()?);
        Ok(true)
    }
}

fn first_field(row: &Row) -> String {
    let name = row.first().map(|(_, field)| field.raw().into_owned());
    String::from_utf8_lossy(&name.unwrap_or_default()).into_owned()
}

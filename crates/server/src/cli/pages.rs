//! Pages: a long list asked for piece by piece, all at one revision, so that it is one picture.

use super::args::Moment;
use super::failure::Result;
use super::field::Row;
use super::session::Session;
use super::store::Begun;

/// How many rows are asked for at once.
const PAGE: u64 = 1000;

/// Where a list stands.
#[derive(Debug)]
pub struct Pages {
    /// The point in time that it shows.
    pub moment: Moment,
    /// The name it goes on behind.
    pub after: Option<String>,
    /// How many rows are still wanted.
    pub left: u64,
    /// Whether a page may have fewer rows than were asked for, and others behind it.
    cut_short: bool,
}

impl Pages {
    /// A list at a moment, behind a name, of at most so many rows.
    pub fn new(moment: Moment, after: Option<String>, limit: Option<u64>) -> Pages {
        Pages { moment, after, left: limit.unwrap_or(u64::MAX), cut_short: false }
    }

    /// Of rows that are long: a page ends behind so many bytes, so only one without rows is the last.
    pub fn cut_short(self) -> Pages {
        Pages { cut_short: true, ..self }
    }

    /// Shows all rows. A page is asked for with where the list stands and how many are wanted; its rows
    /// begin with their names.
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

    /// Stays at the newest revision from here on; says whether the page has to be asked for again. One
    /// page alone is one picture.
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

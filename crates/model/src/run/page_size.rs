//! Adaptive page size for reads of events of unknown size.
//!
//! ```text
//!   requests 1,000 --too large--> 500 --too large--> 250 --success--> next time 313, ..., 1,000
//! ```

use super::{CanonicalEvent, FetchOptions, RunStore};
use crate::{Error, ErrorKind, Result};

/// The number of events to request per page. It halves while a page is too large and grows by a quarter after
/// each success.
///
/// ```
/// use mainstay_model::{Code, Error, PageSize};
/// let too_large = |_| Err(Error::new(Code::TransactionTooLarge, "more than 128 MiB"));
/// let mut size = PageSize::upto(1_000);
/// assert_eq!(size.ask(|limit| if limit > 300 { too_large(limit) } else { Ok(limit) })?, 250);
/// // A single event that is too large remains an error.
/// assert!(size.ask(too_large).is_err());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSize {
    now: usize,
    most: usize,
}

impl PageSize {
    /// Starts at the largest page size.
    pub fn upto(most: usize) -> PageSize {
        PageSize { now: most, most }
    }

    /// Requests a page. Halves the page size and retries while the page is too large.
    pub fn ask<T>(&mut self, mut ask: impl FnMut(usize) -> Result<T>) -> Result<T> {
        loop {
            match ask(self.now) {
                Err(error) if self.shrinks(&error) => {}
                page => return self.grown(page),
            }
        }
    }

    /// Fetches a page of a run's events after `after_seq`. Halves the page size and retries while the page is
    /// too large.
    pub async fn fetch<S: RunStore + ?Sized>(
        &mut self,
        store: &S,
        run: &str,
        after_seq: u64,
    ) -> Result<Vec<CanonicalEvent>> {
        loop {
            match store.fetch_events(run, FetchOptions::after(after_seq).limit(self.now)).await {
                Err(error) if self.shrinks(&error) => {}
                page => return self.grown(page),
            }
        }
    }

    /// Halves the page size if the error says that the page is too large. Returns whether to retry.
    fn shrinks(&mut self, error: &Error) -> bool {
        let shrinks = error.kind() == ErrorKind::TooLarge && self.now > 1;
        self.now = if shrinks { self.now / 2 } else { self.now };
        shrinks
    }

    /// Grows the page size after a success, so that a few large events do not keep all later pages small.
    fn grown<T>(&mut self, page: Result<T>) -> Result<T> {
        if page.is_ok() {
            self.now = (self.now + self.now / 4 + 1).min(self.most);
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    #[test]
    fn pages_shrink_while_they_are_too_large_and_grow_again() {
        let mut size = PageSize::upto(1_000);
        let mut asked = Vec::new();
        let mut ask = |most: usize| {
            size.ask(|limit| {
                asked.push(limit);
                let error = || Error::new(Code::TransactionTooLarge, "too much");
                if limit > most { Err(error()) } else { Ok(()) }
            })
        };
        assert!(ask(1).is_ok());
        assert!((0..40).all(|_| ask(1_000).is_ok()));
        assert!(ask(0).is_err());
        assert_eq!(asked[..10], [1_000, 500, 250, 125, 62, 31, 15, 7, 3, 1]);
        assert!(asked.contains(&1_000));
        assert_eq!(asked.last(), Some(&1));
    }

    #[test]
    fn other_errors_are_told_at_once() {
        let mut size = PageSize::upto(8);
        let mut count = 0;
        let answer: Result<()> = size.ask(|_| {
            count += 1;
            Err(Error::new(Code::Closed, "it was closed"))
        });
        assert_eq!((answer.unwrap_err().code(), count), (Code::Closed, 1));
    }
}

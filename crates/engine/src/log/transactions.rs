//! Decodes the transactions of a frame, checking every length.

use mainstay_model::{Code, Error, Result, Revision, Stamp};

use super::varint;

/// One transaction of a frame.
#[derive(Clone, Debug)]
pub struct LoggedTransaction<'a> {
    /// Its revision.
    pub revision: Revision,
    /// Its commit timestamp.
    pub stamp: Stamp,
    /// Its request id, empty if it had none.
    #[allow(dead_code, reason = "part of the format; replay and feed need only the effects")]
    pub request: &'a [u8],
    /// Its effects, in order.
    pub effects: Effects<'a>,
}

/// Iterator over the transactions of a frame.
///
/// If the content of a frame cannot be decoded although its checksum is correct, it was not written in this
/// format. The item is then an error, and the iteration ends.
#[derive(Clone, Debug)]
pub struct Transactions<'a> {
    revision: Revision,
    left: u32,
    stamp: Stamp,
    rest: &'a [u8],
}

impl<'a> Transactions<'a> {
    pub fn new(first: Revision, count: u32, payload: &'a [u8]) -> Transactions<'a> {
        Transactions { revision: first, left: count, stamp: 0, rest: payload }
    }

    fn decode(&mut self) -> Option<LoggedTransaction<'a>> {
        self.stamp = self.stamp.wrapping_add(varint::take(&mut self.rest)?);
        let request = varint::take_bytes(&mut self.rest)?;
        let count = usize::try_from(varint::take(&mut self.rest)?).ok()?;
        let start = self.rest;
        for _ in 0..count {
            varint::take_bytes(&mut self.rest)?;
            varint::take_bytes(&mut self.rest)?;
        }
        // The loop above checked every effect, so the iterator below needs no error handling.
        let effects = Effects { left: count, rest: &start[..start.len() - self.rest.len()] };
        Some(LoggedTransaction { revision: self.revision, stamp: self.stamp, request, effects })
    }

    fn fail(&mut self, what: &str) -> Error {
        self.left = 0;
        self.rest = &[];
        let message = format!(
            "the transaction at revision {} cannot be decoded: {what}; run `mainstay doctor`",
            self.revision
        );
        Error::new(Code::CorruptLog, message)
    }

    /// Decodes all transactions and returns the stamp of the last one.
    pub(super) fn last_stamp(self) -> Result<Stamp> {
        let mut stamp = 0;
        for transaction in self {
            stamp = transaction?.stamp;
        }
        Ok(stamp)
    }
}

impl<'a> Iterator for Transactions<'a> {
    type Item = Result<LoggedTransaction<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let surplus = !self.rest.is_empty();
            return surplus.then(|| Err(self.fail("bytes are left over behind it")));
        }
        let Some(transaction) = self.decode() else {
            return Some(Err(self.fail("it is cut short")));
        };
        self.left -= 1;
        self.revision += 1;
        Some(Ok(transaction))
    }
}

/// Iterator over the effects of a transaction: key and entry, in order.
#[derive(Clone, Debug)]
pub struct Effects<'a> {
    left: usize,
    rest: &'a [u8],
}

impl<'a> Iterator for Effects<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some((varint::take_bytes(&mut self.rest)?, varint::take_bytes(&mut self.rest)?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Effects<'_> {}

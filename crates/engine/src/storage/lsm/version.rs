//! Validation of versions before they are ingested.

use mainstay_model::{Code, Error, Result, Revision};

/// Maximum key length in bytes; the table format stores key lengths in 16 bits.
pub const KEY_LIMIT_BYTES: usize = u16::MAX as usize;

/// The highest revision: far beyond use, and with room for the offset of sequence numbers.
pub const REVISION_LIMIT: Revision = 1 << 62;

/// Length of the entry prefix that the store interprets: flags and revision.
pub const ENTRY_HEADER_BYTES: usize = 9;

/// The revision of an entry, `None` if the entry is too short.
pub fn revision_of(entry: &[u8]) -> Option<Revision> {
    let bytes = entry.get(1..ENTRY_HEADER_BYTES)?;
    Some(Revision::from_le_bytes(bytes.try_into().ok()?))
}

/// Fails for keys that a table cannot hold.
pub(super) fn check_key(key: &[u8]) -> Result<()> {
    if key.is_empty() {
        return Err(Error::new(Code::InvalidArgument, "the key is empty: give at least one byte"));
    }
    if key.len() > KEY_LIMIT_BYTES {
        let length = key.len();
        let message =
            format!("the key has {length} bytes: use at most {KEY_LIMIT_BYTES} bytes for a key");
        return Err(Error::new(Code::InvalidArgument, message));
    }
    Ok(())
}

/// Validates each version by itself and its order after the previous one.
///
/// Tables written out of order would return wrong results, so ingest checks the order.
#[derive(Default)]
pub(super) struct OrderChecker {
    key: Vec<u8>,
    revision: Revision,
}

impl OrderChecker {
    /// Accepts the next version, or returns an error that describes the problem.
    pub(super) fn check(&mut self, key: &[u8], revision: Revision, entry: &[u8]) -> Result<()> {
        check_key(key)?;
        check_entry(revision, entry)?;
        self.check_order(key, revision)
    }

    fn check_order(&mut self, key: &[u8], revision: Revision) -> Result<()> {
        let in_order = match key.cmp(&self.key) {
            std::cmp::Ordering::Greater => true,
            std::cmp::Ordering::Equal => revision < self.revision,
            std::cmp::Ordering::Less => false,
        };
        if !in_order {
            let message = format!(
                "the version at revision {revision} is out of order: \
                 ingest keys ascending and the revisions of a key descending"
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        if key != self.key {
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        self.revision = revision;
        Ok(())
    }
}

fn check_entry(revision: Revision, entry: &[u8]) -> Result<()> {
    if revision > REVISION_LIMIT {
        let message = format!("revision {revision} is above the limit of {REVISION_LIMIT}");
        return Err(Error::new(Code::InvalidArgument, message));
    }
    if revision_of(entry) != Some(revision) {
        let message = format!(
            "the entry at revision {revision} does not carry that revision in its bytes 1..9"
        );
        return Err(Error::new(Code::InvalidArgument, message));
    }
    if u32::try_from(entry.len()).is_err() {
        return Err(Error::new(Code::ValueTooLarge, "an entry must stay below 4 GiB"));
    }
    Ok(())
}

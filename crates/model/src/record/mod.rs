//! Records: fields with bytes, a counter and an expiry.
//!
//! ```text
//!   key -> { field -> bytes, ... } , counter, expiry
//! ```

mod bytes;
mod capabilities;
mod command;
mod field;
mod filter;
mod hash;
mod index;
mod store;

pub use bytes::{Change, Changed, Found};
pub(crate) use capabilities::lacks;
pub use capabilities::{Capabilities, Conditions, Counters, Lifetimes, Scans};
pub use command::{Condition, FieldValue, RecordCommand, RecordPick, RecordWrite};
pub use field::{FIELD_LIMIT_BYTES, Field, Fields};
pub use filter::{Decimal, Test, Where};
pub use hash::HashCommand;
pub use index::{IndexCommand, IndexInfo};
pub(crate) use store::lacking;
pub use store::{Answering, RecordStore, check_scan};

use crate::{Revision, Stamp};
use serde::{Deserialize, Serialize};

/// A record's fields and everything known about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What it holds; where only some fields were asked for, those of them that it has.
    pub fields: Fields,
    /// How often the record has been written, deletions included.
    pub counter: u64,
    /// When it was written.
    pub stamp: Stamp,
    /// The transaction that wrote it. Zero inside the transaction that is still open.
    pub revision: Revision,
    /// When it expires.
    pub expires: Option<Stamp>,
}

impl Record {
    /// How long it still lives, in milliseconds, for whoever looks at this moment; nothing where it does not
    /// expire. What is left of a millisecond counts as one, so that only what is over says 0.
    ///
    /// ```
    /// use mainstay_model::{Fields, Record};
    /// let (fields, expires) = (Fields::of([("a", "1")])?, Some(5_500));
    /// let record = Record { fields, counter: 1, stamp: 500, revision: 1, expires };
    /// assert_eq!(record.ttl_ms(500), Some(5));
    /// assert_eq!(record.ttl_ms(5_499), Some(1));
    /// assert_eq!(record.ttl_ms(5_500), Some(0));
    /// # Ok::<(), mainstay_model::Error>(())
    /// ```
    pub fn ttl_ms(&self, now: Stamp) -> Option<u64> {
        self.expires.map(|expires| expires.saturating_sub(now).div_ceil(1000))
    }

    /// What the one field holds that was asked for.
    pub fn only_value(self) -> Option<Vec<u8>> {
        self.fields.into_iter().next().map(|(_, value)| value)
    }
}

/// A page of records in byte order of their keys, and where the next one begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordPage {
    /// The records with their keys.
    #[serde(with = "crate::wire::fields::list")]
    pub records: Vec<(String, Record)>,
    /// Pass this as `after` for the next page; `None` at the end.
    pub next: Option<String>,
}

/// One version of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordHistoryEntry {
    /// The record's counter after this version.
    pub counter: u64,
    /// How many writes the version stands for: its transaction may have made several.
    pub writes: u64,
    /// The fields; nothing where the record was deleted.
    pub fields: Option<Fields>,
    /// When it was written.
    pub stamp: Stamp,
    /// The transaction that wrote it.
    pub revision: Revision,
    /// When it expires or expired.
    pub expires: Option<Stamp>,
}

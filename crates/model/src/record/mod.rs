//! Records: maps from field names to bytes, with a counter and an expiry.
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

/// A record's fields with its version and expiry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The fields. If only some were requested, those that exist among them.
    pub fields: Fields,
    /// The number of writes to the record, including deletions.
    pub counter: u64,
    /// The commit timestamp of the last write.
    pub stamp: Stamp,
    /// The revision of the last write. Zero while its transaction is still open.
    pub revision: Revision,
    /// The time when the record expires, if it does.
    pub expires: Option<Stamp>,
}

impl Record {
    /// The remaining time to live at `now`, in milliseconds; `None` if the record does not expire. A fraction
    /// of a millisecond counts as one, so that only an expired record returns 0.
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

    /// Returns the value of the only requested field.
    pub fn only_value(self) -> Option<Vec<u8>> {
        self.fields.into_iter().next().map(|(_, value)| value)
    }
}

/// A page of records in byte order of their keys, with the cursor of the next page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordPage {
    /// The records with their keys.
    #[serde(with = "crate::wire::fields::list")]
    pub records: Vec<(String, Record)>,
    /// The cursor: pass it as `after` for the next page. `None` at the end.
    pub next: Option<String>,
}

/// One version of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordHistoryEntry {
    /// The record's counter after this version.
    pub counter: u64,
    /// The number of writes that this version merges, because one transaction may write a record several
    /// times.
    pub writes: u64,
    /// The fields; `None` if this version is a deletion.
    pub fields: Option<Fields>,
    /// The commit timestamp of this version.
    pub stamp: Stamp,
    /// The revision of this version.
    pub revision: Revision,
    /// The time when the record expires or expired, if it does.
    pub expires: Option<Stamp>,
}

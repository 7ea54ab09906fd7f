//! Records: fields with bytes, a counter and an expiry.
//!
//! ```text
//!   key -> { field -> bytes, ... } , counter, expiry
//! ```

mod bytes;
mod command;
mod field;
mod filter;
mod hash;
mod index;

pub use bytes::{Change, Changed};
pub use command::{Condition, FieldValue, RecordCommand, RecordPick, RecordWrite};
pub use field::{FIELD_LIMIT_BYTES, Field, Fields};
pub use filter::{Decimal, Test, Where};
pub use hash::HashCommand;
pub use index::{IndexCommand, IndexInfo};

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

/// A page of records in byte order of their keys, and where the next one begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordPage {
    /// The records with their keys.
    #[serde(with = "crate::wire::fields::list")]
    pub records: Vec<(String, Record)>,
    /// Pass this as `after` for the next page; `None` at the end.
    pub next: Option<String>,
}

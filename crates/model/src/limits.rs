//! Fixed limits, with the checks that enforce them.

use crate::{Code, Error, Result, Test, Where};

/// The largest encoded value, in bytes.
pub const VALUE_LIMIT_BYTES: usize = 16 << 20;
/// The deepest nesting of arrays and objects.
pub const VALUE_LIMIT_DEPTH: usize = 128;
/// The most bytes of effects one transaction may write.
pub const TRANSACTION_LIMIT_BYTES: usize = 64 << 20;
/// The most bytes that one transaction may write in total, including writes that replace each other.
pub const TRANSACTION_LIMIT_WRITTEN_BYTES: usize = 256 << 20;
/// The most bytes of index entries that one transaction may write in addition. The records that one sweep
/// deletes fit, whatever the number of indexes and the length of their keys.
pub const ENTRIES_LIMIT_BYTES: usize = 128 << 20;
/// The most bytes of answers in a stored receipt of a request with an id. The largest page fits.
pub const RECEIPT_LIMIT_BYTES: usize = 128 << 20;
/// The most bytes of answers of one transaction. They stay in memory until all are complete.
pub const ANSWERS_LIMIT_BYTES: usize = 128 << 20;
/// The most commands one transaction may hold.
pub const TRANSACTION_LIMIT_COMMANDS: usize = 100_000;
/// The most memory of one interactive transaction: its commands, its writes and its read set.
pub const OPEN_LIMIT_BYTES: usize = 256 << 20;
/// The most guards an interactive transaction may gather.
pub const GUARD_LIMIT: usize = 10_000;
/// The default page size, in entries.
pub const PAGE_DEFAULT: usize = 1_000;

/// A transaction with more commands than this is long. A server runs it on a separate thread, so that no
/// other request waits for it.
pub const LONG_COMMANDS: usize = 1_000;
/// The largest page size, in entries.
pub const PAGE_LIMIT: usize = 100_000;
/// The most fields of a record.
pub const RECORD_LIMIT_FIELDS: usize = 65_536;
/// The most filters of a scan.
pub const FILTER_LIMIT: usize = 64;
/// The most values in one `IN` filter.
pub const IN_LIMIT: usize = 1_024;
/// The most conditions of one write.
pub const CONDITION_LIMIT: usize = 1_024;
/// The most secondary indexes of a database.
pub const INDEX_LIMIT: usize = 64;
/// The most fields of an index.
pub const INDEX_LIMIT_FIELDS: usize = 8;
/// The deepest nesting of forks.
pub const BRANCH_LIMIT_DEPTH: usize = 32;

/// Rejects a page size out of range.
pub fn check_page(limit: usize) -> Result<()> {
    if (1..=PAGE_LIMIT).contains(&limit) {
        return Ok(());
    }
    let message = format!("a page has 1 to {PAGE_LIMIT} entries, not {limit}");
    Err(Error::new(Code::InvalidLimit, message))
}

/// Rejects too many filters in a scan, and too many values in one filter.
pub fn check_filters(filters: &[Where]) -> Result<()> {
    let count = filters.len();
    if count > FILTER_LIMIT {
        let message = format!("{count} filters at once: {FILTER_LIMIT} are the most");
        return Err(Error::new(Code::InvalidArgument, message));
    }
    filters.iter().try_for_each(check_filter)
}

fn check_filter(filter: &Where) -> Result<()> {
    match &filter.test {
        Test::In(values) if values.len() > IN_LIMIT => {
            let message = format!(
                "`IN` with {} values for field `{}`: {IN_LIMIT} are the most; scan several times",
                values.len(),
                filter.field
            );
            Err(Error::new(Code::InvalidArgument, message))
        }
        _ => Ok(()),
    }
}

/// Rejects too many conditions in one write.
pub fn check_conditions(count: usize) -> Result<()> {
    if count <= CONDITION_LIMIT {
        return Ok(());
    }
    let message = format!(
        "{count} conditions on one write: {CONDITION_LIMIT} are the most; compare the counter instead"
    );
    Err(Error::new(Code::InvalidArgument, message))
}

//! Every stated limit in one place.

use crate::{Code, Error, Result, Test, Where};

/// The largest value, encoded.
pub const VALUE_LIMIT_BYTES: usize = 16 << 20;
/// The deepest nesting of arrays and objects.
pub const VALUE_LIMIT_DEPTH: usize = 128;
/// The most bytes of effects one transaction may write.
pub const TRANSACTION_LIMIT_BYTES: usize = 64 << 20;
/// The most bytes that one transaction may write in all, also where one write replaces another.
pub const TRANSACTION_LIMIT_WRITTEN_BYTES: usize = 256 << 20;
/// The most bytes of entries in indexes that one transaction may write beside. The records that one sweep deletes
/// fit, however many indexes there are and however long their keys.
pub const ENTRIES_LIMIT_BYTES: usize = 128 << 20;
/// The most bytes of answers that are kept for a request with an id: the largest page fits.
pub const RECEIPT_LIMIT_BYTES: usize = 128 << 20;
/// The most bytes of answers one transaction may ask for: they are held until all are there.
pub const ANSWERS_LIMIT_BYTES: usize = 128 << 20;
/// The most commands one transaction may hold.
pub const TRANSACTION_LIMIT_COMMANDS: usize = 100_000;
/// The most memory that one interactive transaction may take: its commands, its writes and its read set.
pub const OPEN_LIMIT_BYTES: usize = 256 << 20;
/// The most guards an interactive transaction may gather.
pub const GUARD_LIMIT: usize = 10_000;
/// A page's size when none is given.
pub const PAGE_DEFAULT: usize = 1_000;

/// A transaction of more commands is long: a server leaves it to a thread that nobody else waits for.
pub const LONG_COMMANDS: usize = 1_000;
/// The largest page.
pub const PAGE_LIMIT: usize = 100_000;
/// The most fields of a record.
pub const RECORD_LIMIT_FIELDS: usize = 65_536;
/// The most filters of a scan.
pub const FILTER_LIMIT: usize = 64;
/// The most values that one filter compares a field with.
pub const IN_LIMIT: usize = 1_024;
/// The most conditions of one write.
pub const CONDITION_LIMIT: usize = 1_024;
/// The most indexes of a database.
pub const INDEX_LIMIT: usize = 64;
/// The most fields of an index.
pub const INDEX_LIMIT_FIELDS: usize = 8;
/// How many forks of forks there may be.
pub const BRANCH_LIMIT_DEPTH: usize = 32;

/// Refuses a page of a size that there is not.
pub fn check_page(limit: usize) -> Result<()> {
    if (1..=PAGE_LIMIT).contains(&limit) {
        return Ok(());
    }
    let message = format!("a page has 1 to {PAGE_LIMIT} entries, not {limit}");
    Err(Error::new(Code::InvalidLimit, message))
}

/// Refuses more filters than a scan may have, and more values than one of them may have.
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

/// Refuses more conditions than a write may have.
pub fn check_conditions(count: usize) -> Result<()> {
    if count <= CONDITION_LIMIT {
        return Ok(());
    }
    let message = format!(
        "{count} conditions on one write: {CONDITION_LIMIT} are the most; compare the counter instead"
    );
    Err(Error::new(Code::InvalidArgument, message))
}

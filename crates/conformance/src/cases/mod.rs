//! Engine cases: cells, strings, records, runs, keyed state, the outbox, and what applies to all kinds of state.

pub mod branches;
pub mod cells;
pub mod durability;
pub mod feed;
pub mod keyed;
pub mod limits;
pub mod outbox;
pub mod records;
pub mod runs;
pub mod strings;
pub mod time;
pub mod transactions;

use crate::TestDb;
use crate::suite::Case;

/// A fixture feature that a case can require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseRequirement {
    /// A database on disk, which can be closed and opened again.
    Disk,
}

/// A conformance case for the engine.
pub type DatabaseCase = Case<DatabaseRequirement, fn(&mut TestDb)>;

/// All registered cases.
pub fn all() -> &'static [DatabaseCase] {
    crate::registry::DATABASE_CASES
}

/// Runs the case with this name.
pub fn run(case: &str, db: &mut TestDb) {
    (Case::named(case, all()).body)(db);
}

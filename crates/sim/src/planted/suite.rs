//! The conformance suite as a check.

use crate::drill::Outcome;
use mainstay_conformance::TestDb;
use mainstay_conformance::cases::{self, DatabaseCase};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Areas of cells and strings, and of what applies to all kinds of state.
const AREAS: [&str; 8] =
    ["cells", "strings", "transactions", "branches", "time", "feed", "limits", "durability"];

fn is_checked(case: &DatabaseCase) -> bool {
    let area = case.name.split("::").next();
    case.requires.is_empty() && area.is_some_and(|area| AREAS.contains(&area))
}

/// Runs these cases in memory. The error names the first failing case.
pub fn run() -> Outcome<()> {
    std::panic::set_hook(Box::new(|_| {}));
    let failed = cases::all().iter().filter(|case| is_checked(case)).find_map(|case| {
        let done = catch_unwind(AssertUnwindSafe(|| (case.body)(&mut TestDb::memory())));
        done.is_err().then(|| format!("case {} fails", case.name))
    });
    drop(std::panic::take_hook());
    failed.map_or(Ok(()), Err)
}

//! The conformance suite as a check.

use crate::drill::Outcome;
use mainstay_conformance::World;
use std::panic::{AssertUnwindSafe, catch_unwind};

type Case = (&'static str, fn(&mut World));

macro_rules! list {
    ($($area:ident :: $file:ident { $($case:ident,)* })*) => {
        const CASES: &[Case] = &[$($((
            concat!(stringify!($area), "::", stringify!($file), "::", stringify!($case)),
            mainstay_conformance::$area::$file::$case,
        ),)*)*];
    };
}

mainstay_conformance::every_case!(list);

/// Runs every case in memory. The error names the first failing case.
pub fn run() -> Outcome<()> {
    std::panic::set_hook(Box::new(|_| {}));
    let failed = CASES.iter().find_map(|(name, case)| {
        let done = catch_unwind(AssertUnwindSafe(|| case(&mut World::memory())));
        done.is_err().then(|| format!("case {name} fails"))
    });
    drop(std::panic::take_hook());
    failed.map_or(Ok(()), Err)
}

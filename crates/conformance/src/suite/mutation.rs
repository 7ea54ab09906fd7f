//! Mutation tests: a faulty store must fail the cases that cover its fault.
//!
//! ```text
//!   faulty_store! (operations) --> Faults (replaced operations) + correct store --> faulty store --> detect
//! ```

use super::{Case, Contract, Fixture};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Number of attempts for a race case, because its threads may not collide at once.
const RACE_ATTEMPTS: usize = 50;

/// Asserts that each of these cases fails on a faulty store. Other tests check that the cases pass on the
/// correct store.
#[track_caller]
pub fn detect<S: Contract + ?Sized, F: Fixture<S>>(faulty: impl Fn() -> F, cases: &[&str]) {
    for name in cases {
        let attempts = if name.starts_with("races::") { RACE_ATTEMPTS } else { 1 };
        let is_detected = (0..attempts).any(|_| fails(name, &faulty()));
        assert!(is_detected, "{name} did not notice");
    }
}

fn fails<S: Contract + ?Sized>(name: &str, fixture: &dyn Fixture<S>) -> bool {
    let case = Case::named(name, S::cases());
    assert_eq!(case.skip_reason(fixture), None, "{name}");
    catch_unwind(AssertUnwindSafe(|| case.run(fixture))).is_err()
}

/// Defines a store that wraps a correct one, and `Faults`, which replace some of its operations.
///
/// The methods of `Faults` take a replacement: a closure of the correct store and the arguments.
/// Operations without a replacement run on the correct store.
#[macro_export]
macro_rules! faulty_store {
    (impl $contract:ident for $store:ident {
        $(fn $op:ident $(<$life:lifetime>)? ($($arg:ident: $of:ty),*) -> $answer:ty;)*
    }) => {
        /// Replacements for operations.
        #[derive(Default)]
        #[allow(clippy::type_complexity, reason = "the types of the operations are written out")]
        pub struct Faults {
            $($op: Option<Box<
                dyn $(for<$life>)? Fn(&$($life)? dyn $contract, $($of),*) -> $answer + Send + Sync,
            >>,)*
        }

        #[allow(dead_code, reason = "tests need not replace every operation")]
        impl Faults {
            $(pub fn $op(
                mut self,
                fault: impl $(for<$life>)? Fn(&$($life)? dyn $contract, $($of),*) -> $answer
                    + Send + Sync + 'static,
            ) -> Faults {
                self.$op = Some(Box::new(fault));
                self
            })*
        }

        /// A correct store with faults.
        pub struct $store {
            pub inner: std::sync::Arc<dyn $contract>,
            pub faults: Faults,
        }

        impl $contract for $store {
            $(fn $op $(<$life>)? (&$($life)? self, $($arg: $of),*) -> $answer {
                match &self.faults.$op {
                    Some(fault) => fault(&*self.inner, $($arg),*),
                    None => self.inner.$op($($arg),*),
                }
            })*
        }
    };
}

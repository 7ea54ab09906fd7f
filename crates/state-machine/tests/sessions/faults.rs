//! Mutation tests with planted faults. The random programs that pass on the correct machine must detect each
//! fault, even by client-visible answers alone. A test that cannot fail proves nothing.

use crate::explorer::{Look, explore};
use mainstay_state_machine::faults::{Fault, with_fault};

fn is_found(fault: Fault) {
    for look in [Look::Answers, Look::Everything] {
        let found = with_fault(fault, || explore(look, 1_500, 80));
        let why = found.expect_err(&format!("{fault:?} was not found by {look:?}"));
        println!("{fault:?} is found by {look:?}: {}", why.lines().next().unwrap_or_default());
    }
}

macro_rules! is_found {
    ($($test:ident: $fault:ident;)*) => {
        /// Every fault has a test here.
        #[test]
        fn every_fault_is_planted_once() {
            assert_eq!(Fault::ALL, [$(Fault::$fault),*]);
        }

        $(
            #[test]
            fn $test() {
                is_found(Fault::$fault);
            }
        )*
    };
}

is_found! {
    an_answer_that_is_not_kept_is_found: AbortNotKept;
    an_eviction_too_many_is_found: EvictionOffByOne;
    a_number_given_twice_is_found: LetterNumberReused;
    a_retry_that_is_too_early_is_found: RetryNotStrict;
    an_execution_after_the_end_is_found: ExpiredExecutes;
    a_mark_that_no_snapshot_has_is_found: MarkNotInSnapshot;
    requests_of_what_did_not_happen_are_found: AbortedRequestsSent;
    writes_of_what_did_not_happen_are_found: PanicKeepsWrites;
    a_client_that_is_not_heard_is_found: LowestPendingIgnored;
    a_mark_that_falls_is_found: MarkLowered;
    a_neighbour_that_goes_too_is_found: NeighbourTaken;
    numbers_that_begin_again_are_found: FormerForgotten;
}

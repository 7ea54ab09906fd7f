//! Registry of all run store cases with their required capabilities.
//!
//! A case that is not listed here does not run; `tests/listed.rs` checks that every case is listed.

use crate::run_need::{RunCase as Case, RunNeed as Need};
use crate::table_of_cases;

/// Passes every run store case to a macro, as `area::file { case [Need, …] lacking Need, … }`.
#[macro_export]
macro_rules! every_run_store_case {
    ($make:ident) => {
        $make! {
            run_stores::append {
                makes_a_run, sequences_rise, sequences_have_no_gaps [Contiguous],
                runs_are_independent, what_is_said_survives, what_is_left_out_is_filled_in,
                unknown_fields_are_kept, values_survive,
            }
            run_stores::batch {
                answers_per_position [Batches], same_key_inside_is_one_event [Batches],
                bad_event_writes_nothing [Batches], several_runs_in_one [Batches],
                deleted_run_writes_nothing [Batches, Deletion],
            }
            run_stores::bootstrap {
                makes_a_run_with_metadata [Bootstrap], where_there_is_one_is_refused [Bootstrap],
                bad_event_makes_nothing [Bootstrap], same_key_later_is_the_first [Bootstrap],
            }
            run_stores::closing {
                ping_is_true_while_open, closed_says_so, closing_again_is_nothing,
            }
            run_stores::delete {
                deleted_is_gone_everywhere [Deletion], appends_are_not_found [Deletion],
                says_whether_it_was_there [Deletion], others_stay [Deletion],
                expecting_is_not_found [Deletion, ExpectedSeq],
            }
            run_stores::expected {
                right_sequence_appends [ExpectedSeq], moved_is_refused [ExpectedSeq],
                of_nothing_is_zero [ExpectedSeq], told_again_is_the_first [ExpectedSeq],
            }
            run_stores::fetch {
                unknown_run_is_empty, goes_in_order, after_is_exclusive,
                pages_give_everything_once, beyond_the_end_is_empty, limits_are_checked,
                seen_is_never_overtaken [Monotone],
            }
            run_stores::idempotency {
                told_twice_is_one_event, other_data_is_a_conflict, other_type_is_a_conflict,
                when_and_by_whom_may_differ, first_stays_as_it_was, keys_are_of_a_run,
            }
            run_stores::info {
                tells_where_a_run_stands, unknown_is_nothing, follows_every_event,
            }
            run_stores::input {
                bad_names_are_refused, longest_names_are_taken, step_event_without_a_step,
                event_without_a_type, empty_key, malformed_time, payload_over_the_limit,
                nothing_is_left_of_what_was_refused,
            }
            run_stores::keys {
                made_by_the_formula, own_one_wins, plan_id_is_part_of_it,
                attempts_are_events_of_their_own, first_attempt_need_not_be_told,
                signals_have_keys_of_their_own, bar_inside_is_refused,
                nothing_to_go_by_is_refused,
            }
            run_stores::lacking {
                batches lacking Batches, expected_seq lacking ExpectedSeq,
                bootstrap lacking Bootstrap, listing lacking Listing,
                listing_filters [Listing] lacking ListingFilters, deletion lacking Deletion,
                restoring lacking Restoring, tail_wakes lacking TailWakes,
            }
            run_stores::list {
                goes_in_name_order [Listing], keeps_to_the_prefix [Listing],
                cursor_gives_everything_once [Listing], limits_are_checked [Listing],
                by_status [ListingFilters], by_time [ListingFilters, HandClock],
                filters_come_before_the_limit [ListingFilters],
            }
            run_stores::programs {
                of_every_kind,
            }
            run_stores::races {
                one_event_of_a_key, sequences_are_not_shared, one_expecting_wins [ExpectedSeq],
                one_bootstrap_wins [Bootstrap], one_deletion_wins [Deletion],
            }
            run_stores::restore {
                events_are_as_they_were [Restoring], there_already_is_left_alone [Restoring],
                appends_go_on_behind [Restoring], keys_are_known [Restoring],
                deleted_run_comes_back [Restoring, Deletion],
                of_another_contract_is_refused [Restoring],
            }
            run_stores::snapshot {
                of_nothing_is_nothing, is_the_projection, is_never_behind [CurrentSnapshots],
                at_every_sequence, illegal_marks_the_run, illegal_stays_in_the_log,
                unknown_types_move_the_watermark, retry_opens_the_next_attempt,
            }
            run_stores::tail {
                what_is_there_is_not_waited_for [TailWakes], nothing_is_told_in_time [TailWakes],
                append_wakes [TailWakes], other_runs_do_not_count [TailWakes],
            }
        }
    };
}

/// Generates a test for every run store case. The expression creates a world for each test.
#[macro_export]
macro_rules! test_run_store {
    ($name:ident, $world:expr) => {
        $crate::test_listed! {
            ($) $name, $world, every_run_store_case, $crate::run_store_cases::ALL
        }
    };
}

every_run_store_case!(table_of_cases);

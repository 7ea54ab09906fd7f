//! Registry of all keyed state store cases with their required capabilities.
//!
//! A case that is not listed here does not run; `tests/listed.rs` checks that every case is listed.

use crate::keyed_need::{KeyedCase as Case, KeyedNeed as Need};
use crate::table_of_cases;

/// Passes every keyed state store case to a macro, as `area::file { case [Need, …] lacking Need, … }`.
#[macro_export]
macro_rules! every_keyed_store_case {
    ($make:ident) => {
        $make! {
            keyed_stores::append {
                first_of_an_id_stays [Appends], goes_in_order_of_ids [Appends],
                keys_have_logs_of_their_own [Appends], pages_give_everything_once [Appends],
                limits_are_checked [Appends], log_and_state_are_apart [Appends],
                leaves_the_kind_open [Appends], any_bytes_survive [Appends],
                batch_sees_what_is_before [Appends, Atomic],
            }
            keyed_stores::batch {
                answers_per_position [Atomic], sees_what_is_before [Atomic],
                bad_write_writes_nothing [Atomic], other_kind_writes_nothing [Atomic],
                two_kinds_make_nothing [Atomic], positions_go_with_states [Atomic],
                of_nothing_is_nothing, told_again_changes_nothing [Atomic], of_many [Atomic],
            }
            keyed_stores::clear {
                says_whether_there_was_one, removes_everything, space_may_be_another_afterwards,
                logs_go_too [Appends], others_stay,
            }
            keyed_stores::damage {
                every_end_that_is_missing, every_byte_that_is_another, something_behind_the_end,
                foreign_bytes, of_some_keys, in_a_later_block, failing_reader,
                nonsense_with_right_checksums,
            }
            keyed_stores::declare {
                says_whether_it_is_new, otherwise_is_refused,
                ordered_otherwise_is_refused [Ordered], merged_otherwise_is_refused [Merged],
                first_write_declares, position_leaves_the_kind_open, open_kind_is_fixed_later,
                kind_binds, groups_are_checked,
            }
            keyed_stores::delete {
                deleted_is_gone, not_newer_is_stale, version_is_remembered,
                of_nothing_is_remembered, newer_brings_it_back, twice_is_once,
            }
            keyed_stores::durable {
                everything_is_there_again [Durable], told_again_is_stale [Durable],
                restored_stays [Durable],
            }
            keyed_stores::input {
                empty_key, longest_key, key_that_is_too_long, ids_of_items [Appends],
                largest_state, largest_item [Appends],
            }
            keyed_stores::lacking {
                atomic lacking Atomic, ordered lacking Ordered, merged lacking Merged,
                appends lacking Appends,
            }
            keyed_stores::merging {
                plain_put_is_refused [Merged], what_is_put_is_merged [Merged],
                deletion_begins_anew [Merged], failing_function_changes_nothing [Merged],
                moved_changes_nothing [Merged], moved_makes_no_space [Merged],
                deletions_are_read [Merged], works_where_newest_wins [Merged],
                kind_is_checked [Merged], nonsense_is_refused [Merged], closed_is_stale [Merged],
                unsettled_is_a_conflict [Merged, Ordered], sealed_in_order [Merged, Ordered],
                settles_what_waits [Merged, Ordered],
                unseen_is_a_conflict [Merged, Ordered, Atomic],
                overtaken_is_settled [Merged, Ordered],
                overtaken_is_sealed [Merged, Ordered],
                large_states_are_settled_in_pieces [Merged, Ordered],
            }
            keyed_stores::ordered {
                put_waits [Ordered], deletion_waits [Ordered],
                wait_in_order_of_versions_then_keys [Ordered], told_twice_waits_once [Ordered],
                below_the_frontier_is_stale [Ordered], sealed_and_told_again_is_stale [Ordered],
                not_newer_than_applied_is_stale [Ordered, Merged],
                batch_sees_what_waits [Ordered, Atomic], waiting_is_told_in_pieces [Ordered],
                kind_is_checked [Ordered], keys_of_any_bytes_wait [Ordered],
                last_version_of_all_is_refused [Ordered],
            }
            keyed_stores::positions {
                only_rise, zero_is_one, sources_are_independent, names_are_checked, are_no_states,
            }
            keyed_stores::programs {
                of_newest_wins, of_writes_in_order [Ordered], of_merges [Merged],
                of_merges_in_order [Merged, Ordered],
            }
            keyed_stores::races {
                highest_version_wins, one_of_a_version_wins, one_that_waits_wins [Ordered],
                one_item_of_an_id [Appends], furthest_position_stands,
                merging_loses_nothing [Merged], sealing_merges_lose_nothing [Merged, Ordered],
                sealing_loses_nothing [Ordered], batches_are_seen_whole [Atomic],
                snapshots_are_of_one_moment [Atomic], restores_are_seen_whole,
                one_declaration_wins, one_kind_wins,
            }
            keyed_stores::restore {
                brings_everything_back, brings_logs_back [Appends], replaces_everything,
                replay_goes_on_behind, replaces_the_declaration,
                brings_back_what_waits [Ordered], deleted_is_forgotten_later,
                overtaken_is_as_it_was [Ordered, Merged], of_nothing_leaves_nothing,
                own_snapshot_changes_nothing, waiting_below_the_frontier_is_refused [Ordered],
                deleted_below_the_frontier_is_forgotten, part_of_a_space_is_refused, of_many_blocks,
            }
            keyed_stores::scan {
                goes_in_byte_order, has_states_and_versions, keeps_to_the_prefix,
                highest_prefix_ends_nowhere, goes_on_behind_a_key, cursor_gives_everything_once,
                end_is_told, skips_deleted_keys, does_not_show_what_waits [Ordered],
                limits_are_checked, large_pages_end_early,
            }
            keyed_stores::seal {
                applies_in_order_of_versions [Ordered], deletions_have_their_place [Ordered],
                times_are_sealed_in_order [Ordered], overtaken_is_dropped [Ordered, Merged],
                not_further_does_nothing, told_again_applies_nothing [Ordered],
                closes_versions_where_newest_wins, forgets_what_was_deleted,
                keeps_what_came_back, forgets_what_it_deletes [Ordered], fixes_the_kind,
                positions_stay, logs_stay [Appends], of_many [Ordered, Atomic],
            }
            keyed_stores::snapshot {
                equal_states_have_equal_bytes, is_the_same_again, bytes_are_these, has_everything,
                summary_is_right, of_nothing_has_no_entries, failing_writer_is_told,
                of_many_blocks,
            }
            keyed_stores::subsets {
                keys_are_selected, bytes_are_the_same_again, positions_stay_behind,
                never_lowers_a_version, deletions_travel, what_waits_travels [Ordered],
                overtaken_does_not_travel [Ordered], logs_travel [Appends],
                below_the_frontier_is_taken, waiting_below_the_frontier_is_applied [Ordered],
                merged_below_the_frontier_is_a_conflict [Ordered, Merged],
                overtaken_below_the_frontier_is_dropped [Ordered, Merged],
                deletions_below_the_frontier_leave_nothing,
                new_space_takes_the_declaration, open_kind_is_fixed, other_spaces_do_not_fit,
                ordered_spaces_do_not_fit [Ordered], whole_snapshot_may_be_added,
                changes_are_refused, groups_move_without_loss,
            }
            keyed_stores::versions {
                newer_is_applied, told_again_is_stale, equal_with_another_value_is_stale,
                older_is_stale, keys_are_independent, lowest_and_highest,
                epochs_come_before_rounds, first_one_fixes_the_kind, empty_state_is_one,
                any_bytes_survive, look_answers_as_asked, nothing_is_read_of_nothing,
            }
        }
    };
}

/// Generates a test for every keyed state store case. The expression creates a world for each test.
#[macro_export]
macro_rules! test_keyed_store {
    ($name:ident, $world:expr) => {
        $crate::test_listed! {
            ($) $name, $world, every_keyed_store_case, $crate::keyed_store_cases::ALL
        }
    };
}

every_keyed_store_case!(table_of_cases);

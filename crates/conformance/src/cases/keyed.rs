//! Cases on keyed state.

/// Passes every case on keyed state to a macro.
#[macro_export]
macro_rules! every_keyed_case {
    ($make:ident) => {
        $make! {
            keyed::branches {
                fork_inherits_everything, writes_stay_on_their_branch, restoring_is_of_one_branch,
                forked_while_restoring, differences_are_named, difference_after_restoring,
                difference_in_what_was_not_restored, waiting_is_inherited,
            }
            keyed::conflicts {
                read_then_written, others_do_not_conflict, restored_meanwhile,
                filling_does_not_conflict, two_first_puts, puts_to_other_keys_never_conflict,
                put_is_as_told, kinds_that_are_fixed_meanwhile, waiting_is_as_told,
                reads_its_own_writes, sees_what_it_replaced, what_it_replaced_is_its_own,
                write_skew_cannot_happen, phantom_among_spaces,
            }
            keyed::feed {
                event_tells_everything, each_change_once, waiting_is_told_when_it_is_applied,
                restoring_is_one_event, writes_while_restoring_are_told, filters,
            }
            keyed::merge {
                newer_version_wins, equal_versions_conflict, items_and_positions_travel,
                frontier_and_waiting_travel, waiting_writes_conflict, forgotten_deletions_travel,
                forgotten_against_written, replaced_travels, replaced_against_changed,
                changed_against_replaced, removal_travels, brought_back_is_not_reaped,
                made_on_both_sides, replaced_before_they_met, declared_differently,
                kind_of_versions_travels, last_merge_is_the_next_base,
                all_kinds_in_one_transaction,
            }
            keyed::past {
                every_revision_shows_its_state, views_stay_where_they_are, trimmed_says_so,
                tag_keeps_what_it_names, waiting_of_then,
            }
            keyed::programs {
                spaces_do_what_maps_do,
            }
            keyed::restore {
                readers_see_one_or_the_other, new_space_is_not_seen_before,
                damage_leaves_everything, another_one_fences, removed_while_restoring,
                old_generations_are_reaped, entries_are_looked_at, within_a_transaction,
            }
            keyed::sealing {
                pieces_reach_what_one_does, many_deletions_of_one_version, writes_between_pieces,
                frontier_never_falls, added_below_the_frontier,
            }
            keyed::since {
                changes_add_up, others_are_not_in_it, full_says_why, merges_are_changes,
            }
            keyed::transactions {
                one_revision_for_all_kinds, all_or_nothing, stale_under_must_aborts,
                nothing_makes_nothing, steps_see_earlier_ones, guard_on_a_version,
                repeated_gives_the_same_receipt, made_in_the_same_transaction_is_refused,
                positions_stand_with_their_states,
            }
            keyed::transfer {
                round_trip, past_is_replayed, restored_spaces, fork_into_another_database,
                after_a_merge, large_transactions, report_counts_spaces, hash_knows_spaces,
                damage_is_refused, imported_branch_lives_on, only_imports_replay,
            }
        }
    };
}

/// Passes every case on keyed state that needs a database on disk to a macro.
#[macro_export]
macro_rules! every_keyed_disk_case {
    ($make:ident) => {
        $make! {
            keyed::reopening {
                everything_is_there, the_log_alone_gives_them, restore_that_a_crash_ended,
                restore_goes_on_after_a_crash, sealing_that_a_crash_ended, reaping_goes_on,
                changes_are_known, trimmed_log_says_why,
            }
        }
    };
}

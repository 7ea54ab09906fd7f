//! Cases on cells and strings, and cases that apply to all kinds of state.

/// Passes every case that runs both in memory and on disk to a macro, as `area::file { case, … }`.
#[macro_export]
macro_rules! every_case {
    ($make:ident) => {
        $make! {
            cells::batch {
                answers_per_position, invalid_item_fails_alone, invalid_ttl_fails_alone,
                lost_cas_is_an_answer, empty_batch, get_many_answers_per_position,
            }
            cells::cas {
                right_counter_wins, stale_counter_loses, future_counter_loses,
                expected_counter_on_absent_loses, none_on_absent_wins, none_on_present_loses,
                none_after_deletion_continues_the_counter, stale_counter_loses_across_deletion,
                null_is_not_absence, keeps_the_time_to_live, bad_name_is_an_error_not_an_answer,
                same_counter_wins_once,
            }
            cells::delete {
                present_answers_true, absent_answers_false_and_writes_nothing, twice_writes_once,
                counts_as_a_write, conditional_with_the_right_counter,
                conditional_with_a_wrong_counter, conditional_on_absent, disappears_from_lists,
                forgets_the_time_to_live,
            }
            cells::expire {
                cell_is_gone_when_its_time_is_over, expiry_counts_from_the_stamp,
                until_names_the_moment, until_the_past_expires_at_once,
                zero_milliseconds_are_refused, beyond_the_calendar_is_refused,
                gives_a_time_to_live, clear_takes_it_away, keep_writes_nothing,
                absent_answers_false, set_on_expired_counts_the_expiry,
                delete_on_expired_writes_the_expiry, cas_none_on_expired_wins,
                cas_with_the_counter_of_expired_loses, init_on_expired_writes,
                incr_on_expired_starts_from_zero, expire_does_not_bring_back,
                sweep_deletes_what_is_due, sweep_of_nothing_writes_nothing,
                sweep_leaves_what_was_put_off, expires_at_once_within_a_transaction,
            }
            cells::history {
                newest_first_with_everything, deletions_are_entries, of_a_deleted_cell,
                of_an_absent_cell_is_empty, limit_keeps_the_newest, before_is_exclusive,
                pages_give_everything_once, limits_are_checked, bad_name_is_refused,
                one_version_per_transaction, counters_have_no_gaps, untouched_expiry_is_no_entry,
            }
            cells::incr {
                absent_starts_from_zero, adds_and_counts, by_zero_is_a_write,
                after_deletion_starts_from_zero, float_on_either_side_makes_a_float,
                overflow_is_refused, bounds_can_be_reached, float_overflow_is_refused, no_integer_is_rounded,
                infinity_stays, other_types_are_refused, plain_integers_as_text_count, keeps_the_time_to_live,
            }
            cells::init {
                absent_writes_counter_one, present_answers_its_counter_and_writes_nothing,
                twice_is_once, after_deletion_continues_the_counter, null_counts_as_present,
                leaves_no_time_to_live,
            }
            cells::list {
                empty_lists_nothing, goes_in_byte_order, keeps_to_the_prefix,
                prefix_at_the_end_of_the_order, after_is_exclusive, after_outside_the_prefix,
                cursor_is_none_at_the_end, pages_give_everything_once,
                deleted_names_take_no_place, limits_are_checked, at_a_revision,
            }
            cells::naming {
                empty_is_refused, too_long_is_refused, length_is_in_bytes, longest_is_accepted,
                nul_is_refused, reserved_is_refused, resembling_reserved_is_accepted,
                any_character_is_accepted, branches_are_named_alike, tags_are_named_alike,
            }
            cells::set {
                never_written_is_absent, raises_the_counter_by_one, takes_one_revision,
                of_the_same_value_is_a_write, versioned_tells_everything, cells_are_independent,
                after_deletion_continues_the_counter, clears_the_time_to_live,
                keep_keeps_the_time_to_live, old_values_stay_readable,
            }
            cells::values {
                null_is_a_value, truth_survives, whole_numbers_survive, floats_survive_bit_by_bit,
                whole_float_stays_a_float, text_survives, bytes_stay_bytes, nesting_survives,
                depth_limit_is_exact, size_limit_is_exact, typed_values_survive,
                wrong_type_is_refused,
            }
            strings::addition {
                absent_is_zero, number_stays_a_number, bytes_become_text, only_plain_numbers,
                other_types_are_refused, overflow_is_refused, keeps_the_time_to_live,
            }
            strings::appending {
                absent_is_empty, nothing_makes_an_empty_text, bytes_until_it_is_text,
                number_becomes_text, keeps_the_time_to_live, too_large_is_refused,
            }
            strings::decimals {
                short_decimals_are_exact, texts_are_plain, float_stays_a_float,
                whole_number_stays_where_it_can, no_number_is_refused, not_finite_is_refused,
                keeps_the_time_to_live,
            }
            strings::lifetimes {
                conditions_without_an_expiry, conditions_with_an_expiry, same_moment_is_neither,
                absent_answers_false, past_moment_ends_it, persist_ends_it, touch_tells_and_changes,
                touch_of_nothing,
            }
            strings::replacing {
                always_writes_and_tells_the_old, only_absent, only_present, null_is_present,
                only_equal, only_different, compares_texts, time_to_live_as_asked,
                expired_is_absent, past_moment_is_gone_at_once,
                bad_input_is_refused_whatever_is_there, must_fails_where_the_condition_does,
                same_cells_on_branches,
            }
            strings::several {
                all_at_once, last_of_a_name_wins, times_to_live_end, only_absent_is_all_or_none,
                expired_is_absent, one_bad_value_writes_none,
                too_much_leaves_an_open_transaction_as_it_was, none_at_all,
            }
            strings::taking {
                tells_and_deletes, nothing_of_nothing,
            }
            transactions::answers {
                own_writes_have_their_revision, names_see_earlier_steps,
                one_revision_and_stamp_for_all, revisions_rise_by_one_over_all_branches,
                stamps_increase_while_the_clock_stands_still, answers_see_earlier_steps,
                lists_see_earlier_steps, reading_takes_no_revision, empty_does_nothing,
                error_aborts_all_and_names_its_position, first_error_counts, bad_ttl_aborts,
                bad_limit_aborts, lost_cas_does_not_abort, must_cas_aborts, must_delete_aborts,
                must_expire_aborts, must_that_holds_changes_nothing, unknown_branch_is_refused,
                branch_number_must_match, counter_rises_per_write_within,
                branch_command_stands_alone, ticket_completes_when_visible,
                tickets_commit_in_order, callback_gets_the_receipt, waiting_for_a_revision,
            }
            transactions::attempts {
                others_take_effect, nothing_of_it_is_written, failing_alone_takes_no_revision,
                others_may_still_not_fail, without_effect_is_its_usual_answer,
                too_much_fails_everything, branch_commands_fail_everything, counts_in_otherwise_too,
                named_remembers_the_failure,
            }
            transactions::conflicts {
                read_then_changed, read_versioned_then_changed, read_then_deleted,
                absent_then_created, absent_then_created_and_deleted, untouched_does_not_conflict,
                write_without_effect_is_no_change, phantom_in_a_listed_range,
                phantom_in_an_empty_range, deletion_in_a_listed_range, outside_the_listed_range,
                behind_the_page_that_was_read, blind_writes_never_conflict,
                reading_an_own_write_guards_nothing, read_before_write_still_guards,
                read_only_never_fails, cas_is_a_read, incr_is_a_read, delete_is_a_read,
                write_skew_cannot_happen, read_live_but_expired_at_commit,
                listed_live_but_expired_at_commit, own_time_to_live_in_a_listed_range,
                read_live_and_still_live, expiry_is_judged_at_the_snapshot,
                other_branches_do_not_conflict, merge_changes_what_it_brings,
                branch_deleted_and_recreated,
                expired_and_deleted_at_once_is_a_change,
                sweep_of_the_unseen_is_no_change,
                sweep_of_the_seen_is_a_change, branch_deleted,
            }
            transactions::connection {
                without_transaction_goes_straight, inside_waits_for_the_commit,
                begin_twice_is_refused, commit_without_begin_is_refused,
                rollback_without_begin_is_refused, rollback_forgets,
                failed_command_leaves_it_open, conflict_ends_it, dropping_rolls_back,
                moves_to_another_branch,
            }
            transactions::guards {
                counter_of_a_present_cell, counter_of_an_absent_cell, counter_of_an_expired_cell,
                value_goes_by_meaning, value_of_an_absent_cell, value_of_an_expired_cell,
                value_compares_floats_by_bits, unchanged_until_written, unchanged_absence,
                unchanged_sees_a_deletion, unchanged_sees_an_expiry,
                range_unchanged_until_written, range_sees_changes_and_deletions,
                range_keeps_to_its_bounds, range_of_everything, range_sees_an_expiry,
                all_must_hold, guards_see_the_state_before,
            }
            transactions::interactive {
                history_is_of_the_transaction, record_history_is_of_the_transaction,
                names_are_of_the_transaction, revision_of_an_event_is_of_the_transaction,
                reads_a_snapshot, snapshot_is_taken_at_begin, reads_its_own_writes,
                own_writes_have_no_revision_yet, sees_its_own_deletions, lists_see_its_own_writes,
                operations_answer_as_outside, commit_is_one_revision, rollback_leaves_nothing,
                dropping_rolls_back, failed_command_leaves_it_open, read_only_takes_no_revision,
                receipt_has_the_final_counters, closure_commits, closure_rolls_back_on_error,
                closure_is_retried_on_conflict, idle_too_long_is_over,
                almost_idle_too_long_is_fine, open_too_long_is_over,
            }
            transactions::otherwise {
                not_run_when_guards_hold, run_when_a_guard_fails, empty_is_an_answer,
                without_it_the_transaction_fails, error_aborts_with_its_position,
                must_counts_there_too,
            }
            transactions::requests {
                repeated_gives_the_same_receipt, reading_is_remembered_too, another_id_runs,
                failed_runs_again, reused_for_another_transaction_does_not_run,
                remembered_for_a_day, submitted_twice_at_once_runs_once, ids_have_limits,
            }
            transactions::running {
                reads_and_writes, failed_command_leaves_it_open, branch_commands_are_refused,
                what_tells_something_is_a_read, blind_writes_do_not_conflict, as_a_value_it_commits,
                as_a_value_reading_never_fails, as_a_value_of_another_branch,
                as_a_value_idle_too_long, texts_are_read_in_place,
            }
            branches::diff {
                fresh_forks_do_not_differ, change_on_one_side, change_on_both_sides,
                same_change_on_both_sides_is_none, there_and_back_is_none,
                deletion_is_a_difference, deleted_on_both_sides_is_none,
                deleted_here_changed_there, new_key_has_no_base, come_and_gone_is_none,
                null_is_not_absence, siblings_meet_at_the_older_fork,
                grandchild_meets_its_grandparent, in_the_order_of_keys, unknown_branch_is_refused,
                looking_writes_nothing,
            }
            branches::fork {
                main_is_always_there, starts_as_its_parent, writes_nothing_per_key,
                writes_stay_on_the_fork, later_writes_stay_on_the_parent, counters_continue,
                at_a_revision_of_the_past, at_a_stamp_of_the_past, at_the_future_is_refused,
                existing_name_is_refused, unknown_parent_is_refused,
                racing_for_one_name_has_one_winner, forks_of_forks_read_through,
                old_revision_of_a_fork, past_goes_through_the_fork, depth_is_limited,
                inherited_ttl_expires_lazily, ttl_is_the_forks_own, handle_runs_transactions,
                list_tells_where_they_come_from,
            }
            branches::merge {
                changes_travel, answers_its_revision, target_keeps_its_own_changes,
                source_is_not_changed, merged_writes_are_not_in_the_past, from_parent_into_child,
                between_siblings, counters_are_never_lowered, counters_have_no_gaps,
                deletions_travel_with_their_counter, time_to_live_travels,
                last_merge_is_the_next_base, changes_since_the_last_merge_conflict,
                there_and_back, diff_after_merge_shows_what_changed_since,
                unknown_branch_is_refused, into_itself_is_refused, is_one_transaction,
            }
            branches::remove {
                deleted_is_gone, handles_of_a_deleted_branch_are_refused, deleted_is_not_swept,
                unknown_answers_false, main_stays, parents_stay, tagged_stays,
                main_keeps_its_name, recreated_starts_anew, renamed_keeps_everything,
                children_follow_the_name, bad_renames_are_refused, old_name_is_free_again,
            }
            branches::strategy {
                strict_changes_nothing_and_lists_the_keys, theirs_takes_the_source,
                ours_keeps_the_target, settled_by_ours_stays_settled, settled_by_ours_comes_back,
                theirs_brings_deletions, theirs_brings_back_what_was_deleted,
                deletion_against_change_conflicts, same_change_is_no_conflict,
            }
            branches::tags {
                names_the_newest_revision, names_the_past, future_is_refused,
                existing_name_is_refused, unknown_branch_is_refused, removed_is_gone,
                fork_starts_at_a_tag, follows_its_branch,
            }
            branches::transfer {
                round_trip_in_one_database, into_another_database, history_comes_along,
                fork_exports_what_it_shows, imported_branch_lives_on, existing_name_is_refused,
                damaged_file_is_refused, damage_is_called_corrupt, truncated_file_is_refused,
                progress_is_told, unknown_branch_is_refused,
            }
            time::clock {
                stamps_follow_the_clock, stepping_back_is_not_followed,
                behind_follows_the_monotonic_clock, times_to_live_run_while_behind,
                caught_up_is_followed_again, small_jump_ahead_is_followed,
                large_jump_ahead_is_not_followed, large_jump_expires_nothing,
                hours_that_go_by_are_no_jump,
            }
            time::expiry {
                past_revision_judges_then, past_stamp_judges_then, past_lists_judge_then,
                sweep_leaves_the_past, now_is_fixed_for_a_transaction,
                reader_judges_at_its_own_time, swept_or_not_reads_the_same,
            }
            time::retention {
                trimmed_says_so, present_is_untouched, within_the_retention_all_is_there,
                default_is_seven_days, all_can_be_kept, classes_have_their_own,
                never_a_wrong_answer, tag_keeps_its_revision, branch_keeps_what_it_shows,
                branch_keeps_what_its_parent_deleted, base_of_a_merge_is_kept,
                open_reader_keeps_what_it_sees, old_reader_is_cut,
                live_counters_outlive_retention, deleted_counters_live_for_the_retention,
            }
            time::travel {
                every_revision_shows_its_state, newest_not_newer, before_the_first_is_absent,
                before_everything_is_nothing, deletion_is_seen_from_its_revision_on,
                stamp_shows_the_newest_not_later, versioned_in_the_past,
                history_of_the_past_ends_there, future_is_refused, reader_stays_where_it_is,
                stamps_are_known,
            }
            feed::filter {
                by_branch, by_prefix, by_key, by_contract, by_the_contract_of_branches,
                all_at_once, without_everything_comes,
            }
            feed::order {
                in_the_order_of_revisions, event_tells_everything, deletion_has_its_own_kind,
                expiry_has_its_own_kind, one_event_per_key_and_transaction,
                failures_are_not_in_it, nothing_more_is_none, waiting_consumer_is_woken,
                branch_changes_are_events, merged_changes_are_events,
                inherited_expiry_is_no_event,
            }
            feed::resume {
                after_is_exclusive, from_the_start, resumed_anywhere_misses_nothing,
                two_consumers, slow_consumer_is_told_or_served, shows_all_after_a_sync,
                trimmed_is_told,
            }
            limits::pages {
                commands_of_a_transaction, guards_of_an_interactive_transaction,
                pages_inside_a_transaction,
            }
            limits::sizes {
                bytes_of_a_transaction, bytes_of_an_interactive_transaction,
                value_in_a_transaction, depth_in_a_transaction, kind_is_too_large,
                value_in_a_batch_fails_alone, bytes_of_a_merge, bytes_of_all_answers,
                too_many_ranges_are_refused,
            }
            durability::modes {
                answered_is_visible, same_script_same_results, chosen_per_transaction,
                chosen_for_an_interactive_transaction, sync_says_up_to_where,
                interval_syncs_by_itself, closed_refuses,
            }
        }
    };
}

/// Passes every case that needs a database on disk to a macro.
#[macro_export]
macro_rules! every_disk_case {
    ($make:ident) => {
        $make! {
            time::clock {
                large_jump_is_followed_after_reopen, stamps_increase_over_a_reopen,
            }
            time::retention {
                trimmed_stays_trimmed_over_a_reopen,
            }
            feed::resume {
                waits_for_the_sync, later_sync_shows_all_before,
            }
            durability::reopening {
                everything_is_there, past_is_readable, revisions_go_on,
                branches_and_tags_are_there, deleted_branch_stays_deleted,
                times_to_live_run_while_closed, request_ids_are_remembered, feed_goes_on,
                orderly_close_keeps_unsynced_writes, dropping_the_last_handle_closes,
                uncommitted_is_not_there, many_reopens_with_a_small_buffer,
                opened_twice_is_refused, hash_is_the_same,
            }
        }
    };
}

//! The list of all cases: what is not listed here does not run, which `tests/listed.rs` checks.

/// Hands every case that runs in memory and on disk to a macro, as `area::file { case, … }`.
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
                overflow_is_refused, bounds_can_be_reached, float_overflow_is_refused,
                infinity_stays, other_types_are_refused, keeps_the_time_to_live,
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

/// Hands every case that needs a database on disk to a macro.
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

/// Hands every case on records to a macro. They stand apart while the remote client does not read records:
/// its runner takes the others only.
#[macro_export]
macro_rules! every_record_case {
    ($make:ident) => {
        $make! {
            records::branches {
                fork_starts_as_its_parent, scans_read_through, past_goes_through_the_fork,
                fork_of_the_past, inherited_expiry_is_lazy, difference_tells_everything,
                differences_go_by_meaning, expiry_is_a_difference, deleted_branch_is_gone,
            }
            records::cas {
                right_bytes_win, other_bytes_lose, compares_bytes, missing_key_loses,
                missing_field_loses, expired_loses, keeps_the_expiry, absent_is_its_own_form,
                full_form_is_one_step, one_of_many_wins,
            }
            records::conditions {
                right_counter_writes, absent_counter_makes, stale_counter_loses_across_deletion,
                counter_of_expired, exists_updates, all_must_hold, many_conditions,
                absent_field_writes,
                conditions_see_the_state_before, conditions_see_earlier_steps,
                fence_lets_the_holder_write, other_token_is_fenced, gone_is_fenced,
                fence_is_told_first, delete_can_be_fenced, fence_aborts_a_transaction,
                fence_of_an_attempt_is_its_answer, must_aborts, tokens_only_rise,
            }
            records::conflicts {
                reads_a_snapshot_and_its_own_writes, scans_see_its_own_writes,
                read_then_changed, reading_a_field_reads_the_record,
                cell_of_the_name_is_another, scanned_range_changed, phantom_of_a_filter,
                counted_range_changed, behind_the_page, blind_writes_never_conflict,
                blind_writes_merge_at_the_commit, reading_behind_a_blind_write_is_a_read, what_tells_something_is_a_read,
                kinds_are_read, read_live_but_expired_at_commit, unseen_may_expire,
                own_expiry_in_a_scanned_range, write_skew_cannot_happen,
                failed_command_leaves_it_open, receipt_has_the_final_counters,
                merge_changes_what_it_brings,
                expired_and_deleted_at_once_is_a_change,
                sweep_of_the_unseen_is_no_change,
                sweep_of_the_seen_is_a_change,
            }
            records::delete {
                present_answers_true, absent_answers_false_and_writes_nothing,
                counts_as_a_write, conditional_on_the_counter, conditional_on_fields,
                absent_field_of_nothing, leaves_the_cell_of_its_name, forgets_the_expiry,
                within_a_transaction,
            }
            records::expire {
                expired_is_invisible_everywhere, exact_to_the_millisecond, expire_changes_it,
                expire_of_nothing, conditions_on_the_expiry, bad_times_are_refused,
                until_the_past_ends_it, next_write_counts_the_expiry, sweep_deletes_what_is_due,
                sweep_leaves_what_was_put_off, delete_on_expired, past_judges_then,
                now_is_fixed_for_a_transaction, write_of_the_time_to_live_alone,
            }
            records::feed {
                event_tells_everything, deletion_has_its_own_kind, swept_expiry_is_an_event,
                met_expiry_is_an_event, inherited_expiry_is_no_event,
                expiry_met_by_a_deletion_is_an_event,
                expiry_met_by_a_merge_is_an_event,
                met_inherited_expiry_is_no_event, by_contract,
                by_prefix_key_and_branch, one_event_per_record_and_transaction,
                failures_are_not_in_it, overwritten_is_deleted,
            }
            records::fields {
                set_field_upserts, set_fields_is_one_write, setting_keeps_the_expiry,
                on_expired_makes_one_without_expiry, get_field_reads_one, get_fields_reads_some,
                cleared_is_gone, last_field_gone_is_the_record_gone,
                clearing_of_nothing_writes_nothing, sets_and_clears_in_one,
            }
            records::hashes {
                set_counts_new_fields, last_of_a_field_counts, set_absent_writes_once,
                delete_counts_what_was_there, many_fields_at_once, last_field_gone_is_the_record_gone, add_adds,
                add_refuses, add_float_adds, add_float_refuses, keep_the_expiry,
                on_expired_start_anew, same_records,
            }
            records::history {
                newest_first_with_everything, deletions_are_entries, pages_give_everything_once,
                limits_are_checked, one_version_per_transaction, counters_have_no_gaps,
                every_revision_shows_its_state, view_stays_where_it_is,
            }
            records::kinds {
                strings_refuse_a_record, set_overwrites_a_record, set_absent_finds_a_record,
                put_overwrites_a_record, several_overwrite_records, hashes_refuse_a_cell,
                expired_is_of_no_kind, own_commands_do_not_look, both_is_a_cell,
                kind_of_earlier_steps, kinds_on_branches, attempts_fail_alone,
            }
            records::merge {
                changes_travel, other_fields_do_not_conflict, cleared_fields_travel,
                same_field_conflicts, same_change_is_no_conflict, theirs_takes_the_source,
                ours_keeps_the_target, made_on_both_sides, deletion_against_change,
                change_against_deletion, no_fields_left_is_gone,
                no_fields_left_expires_no_more, expiry_travels,
                expiry_of_the_target_stays, expiries_conflict, counters_are_never_lowered,
                last_merge_is_the_next_base, both_kinds_in_one_transaction,
                merged_records_are_events,
            }
            records::naming {
                keys_are_named_alike, field_names_have_a_limit, empty_writes_are_refused,
                field_twice_is_refused, bad_writes_are_refused_whatever_is_there,
                fields_of_a_record, bytes_of_a_record, limits_hold_for_hashes,
                too_large_leaves_what_was,
            }
            records::put {
                never_written_is_absent, makes_a_record, merges_fields,
                of_the_same_fields_is_a_write, sets_the_expiry, none_leaves_the_expiry,
                clear_ends_the_expiry, get_tells_everything, records_are_independent,
                bytes_survive, after_deletion_continues_the_counter, of_nothing_is_refused,
            }
            records::replace {
                drops_other_fields, of_nothing_makes_a_record, keeps_the_expiry, sums_go_on,
                with_nothing_is_refused,
            }
            records::retention {
                default_is_a_day, trimmed_scans_say_so, present_is_untouched,
                records_have_their_own, all_can_be_kept, classes_have_their_own,
                classes_of_cells_are_theirs, pins_keep_what_they_show,
                counters_live_for_the_retention,
            }
            records::scan {
                goes_in_key_order, keeps_to_the_prefix, cells_are_not_in_it,
                cursor_gives_everything_once, after_is_exclusive, filters_come_before_the_limit,
                no_cursor_behind_the_last_match, equality_is_of_bytes, one_of_several,
                numbers_order_numerically, others_order_by_bytes,
                ranges_keep_to_the_class_of_their_bound, without_the_field_nothing_matches,
                filters_are_anded, follows_every_write, sees_earlier_steps,
                looking_writes_nothing, count_agrees_with_scan, limits_are_checked,
                cursor_of_another_scan_is_refused,
            }
            records::transactions {
                one_revision_for_both_kinds, all_or_nothing_over_both_kinds,
                steps_see_earlier_ones, guard_on_the_counter, guard_on_a_field,
                guards_know_their_kind, guard_on_no_change, guard_on_a_range, otherwise_runs,
                repeated_gives_the_same_receipt, reused_request_is_refused,
            }
            records::transfer {
                round_trip, history_comes_along, fork_into_another_database,
                report_counts_records, hash_knows_records, imported_branch_lives_on,
            }
            records::values {
                revision_is_that_of_the_receipt, revision_of_an_open_transaction,
                millis_is_the_stamp, copy_is_what_another_field_held, sum_adds,
                sum_on_expired_starts_anew,
                sums_see_earlier_steps, sum_of_no_number_is_refused, sum_overflow_is_refused,
                one_bad_sum_writes_nothing,
            }
        }
    };
}

/// Hands every case on runs to a macro.
#[macro_export]
macro_rules! every_run_case {
    ($make:ident) => {
        $make! {
            runs::alerts {
                illegal_is_marked_and_told, once_however_often_replayed, one_for_each_event, pages_of_alerts,
                a_run_goes_on, refused_alerts_nobody,
            }
            runs::append {
                first_makes_the_run, sequences_rise_by_one, told_twice_is_one_event,
                another_payload_is_a_conflict, another_type_or_step_is_a_conflict,
                a_later_retry_is_no_conflict, payloads_compare_bit_by_bit, keys_belong_to_their_run,
                emitted_is_the_producers, event_ids_are_its_own, every_field_comes_back, payloads_are_values,
                runs_are_independent,
            }
            runs::batch {
                answers_per_position, one_bad_event_fails_all, empty_batch, repeated_writes_nothing,
                long_batches_are_whole,
            }
            runs::bootstrap {
                metadata_and_events, existing_is_refused, without_events, null_is_metadata,
                bad_events_leave_no_run, a_key_twice_is_one_event,
            }
            runs::branches {
                fork_starts_as_its_parent, both_go_on, from_any_event_on, bases_are_its_own,
                deleting_is_of_one_branch, forks_of_forks, forking_writes_nothing_per_event,
                past_goes_through_the_fork, difference_names_the_run, same_events_are_no_difference,
                deleted_branch_is_gone, from_an_event_of_a_batch_on, rewound_is_another_life,
                rewinding_is_refused,
            }
            runs::conflicts {
                read_then_appended, absent_then_made, read_then_deleted, others_do_not_conflict,
                phantom_in_a_listed_range, append_is_as_told, bootstrap_is_as_told,
                blind_appends_never_conflict, append_then_the_same_event, duplicate_then_deleted,
                others_leave_an_append_alone, append_on_a_fork, append_then_merged,
                expecting_is_looked_at_at_the_commit, reads_its_own_appends, lists_see_its_own,
                failed_command_leaves_it_open, write_skew_cannot_happen, merge_changes_what_it_brings,
                read_only_never_fails,
            }
            runs::delete {
                deleted_is_gone, deleted_takes_no_events, absent_answers_false, others_stay,
                reaping_is_not_seen, within_a_transaction,
                made_in_the_same_transaction_is_refused,
            }
            runs::expecting {
                right_sequence_appends, other_sequence_is_refused, a_retry_is_found, within_a_transaction,
                one_of_many_wins,
            }
            runs::feed {
                event_tells_everything, a_batch_is_told_one_by_one, only_what_was_written,
                alerts_are_told_once, a_deletion_is_one_change, filters,
            }
            runs::fetch {
                unknown_run_is_empty, after_is_exclusive, behind_the_last_is_nothing, limit_keeps_the_first,
                pages_give_everything_once, limits_are_checked, looking_writes_nothing,
            }
            runs::kept {
                last_is_given, upto_an_event, goes_with_the_run, a_branch_keeps_its_own,
            }
            runs::keys {
                by_the_formula, missing_attempt_is_the_first, of_the_whole_run,
                plan_id_stands_before_the_version, of_a_signal, a_run_can_pause_twice, own_key_comes_first,
                another_plan_is_another_event, nothing_to_make_it_of_is_refused, bar_inside_is_refused,
                commands_get_the_same_key, keys_have_limits, keys_are_told_apart,
            }
            runs::list {
                in_byte_order, by_prefix, by_status, by_time, pages_give_everything_once,
                tells_what_is_known, limits_are_checked,
            }
            runs::merge {
                what_one_side_appended_travels, what_the_target_appended_stays, both_conflict_under_strict,
                theirs_appends_what_is_missing, theirs_brings_what_ours_left, ours_keeps_the_target, same_events_are_no_conflict,
                made_on_both_sides, deletions_travel, append_against_deletion, last_merge_is_the_next_base,
                alerts_travel_with_their_events, judged_where_it_comes_to_stand,
                all_kinds_in_one_transaction, merged_events_are_told,
            }
            runs::past {
                every_revision_shows_its_state, before_the_first_is_absent, at_a_stamp,
                deleted_later_is_there, view_stays_where_it_is, future_is_refused, revision_of_an_event,
                list_of_then,
            }
            runs::reducer {
                every_transition_of_a_run, every_transition_of_a_step, nothing_follows_the_end,
                failed_attempt_is_immutable, a_paused_run_begins_nothing, steps_are_independent,
            }
            runs::refusals {
                events_say_what_happened, runs_are_named_alike, payloads_have_limits,
                other_fields_have_limits,
            }
            runs::restore {
                a_deleted_run_comes_back, in_pieces_and_again, what_does_not_fit_is_refused,
                alerts_come_back,
            }
            runs::retention {
                events_are_never_trimmed, past_of_a_run_goes_by_its_events, deleted_says_that_it_was_trimmed, branch_keeps_what_it_shows,
                tag_keeps_what_it_names,
            }
            runs::snapshots {
                of_nothing, never_behind, at_a_past_event, unknown_types_move_the_watermark,
                hash_is_of_the_meaning, attempts_tell_their_events, within_a_transaction,
            }
            runs::tail {
                what_is_there_and_what_comes, before_the_run_is_there, pages_of_a_tail, on_a_branch,
                same_in_every_durability,
            }
            runs::transactions {
                one_revision_for_all_kinds, all_or_nothing, duplicate_under_must_is_fine,
                conflict_under_must_aborts, steps_see_earlier_ones, guard_on_no_change, otherwise_runs,
                attempts_fail_alone, repeated_gives_the_same_receipt, tickets_have_their_sequences,
            }
            runs::transfer {
                round_trip, fork_into_another_database, report_counts_runs, hash_knows_runs,
                imported_branch_lives_on,
            }
        }
    };
}

/// Hands every case on runs that needs a database on disk to a macro.
#[macro_export]
macro_rules! every_run_disk_case {
    ($make:ident) => {
        $make! {
            runs::reopening {
                everything_is_there, the_log_alone_gives_them, branches_and_the_past,
                requests_are_remembered,
            }
            runs::tail {
                only_what_is_synced,
            }
        }
    };
}

/// Hands every case on the outbox to a macro.
#[macro_export]
macro_rules! every_outbox_case {
    ($make:ident) => {
        $make! {
            outbox::branches {
                a_fork_inherits_nothing, a_merge_brings_no_messages,
            }
            outbox::claim {
                oldest_first_and_once, of_nothing_writes_nothing, lease_that_is_over, delivered_goes,
                late_delivery_counts, limits_are_checked, many_relays, a_lease_that_is_over_is_fenced,
            }
            outbox::failing {
                back_off_doubles, dead_after_ten_tries, silence_counts_as_a_try, one_given_up_takes_no_place, unknown_cannot_fail,
                dead_letters_are_listed, replayed_has_all_its_tries,
            }
            outbox::order {
                one_behind_the_other, without_a_run_nobody_waits, a_failure_holds_up_its_run_only,
                a_lost_relay_loses_no_order, a_dead_one_holds_up_nobody, unclaimed_is_not_delivered, runs_are_told_apart,
            }
            outbox::put {
                a_message_comes_whole, state_counts, numbers_are_never_given_twice,
                the_run_need_not_be_there, in_the_feed, bad_input_is_refused,
            }
            outbox::transactions {
                both_or_none, several_keep_their_order, acknowledge_and_put, repeated_gives_the_same_receipt,
                interactive_puts_wait_for_the_commit, interactive_claims_are_refused,
                interactive_answers_are_as_told, interactive_answers_are_of_the_branch,
                guard_on_a_message,
            }
        }
    };
}

/// Hands every case on the outbox that needs a database on disk to a macro.
#[macro_export]
macro_rules! every_outbox_disk_case {
    ($make:ident) => {
        $make! {
            outbox::reopening {
                everything_is_there, the_log_alone_gives_them,
            }
        }
    };
}

/// Hands every case on keyed state to a macro.
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
                put_is_as_told, waiting_is_as_told, reads_its_own_writes, sees_what_it_replaced, what_it_replaced_is_its_own,
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

/// Hands every case on keyed state that needs a database on disk to a macro.
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

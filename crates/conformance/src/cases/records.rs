//! Cases on records.

/// Passes every case on records to a macro.
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

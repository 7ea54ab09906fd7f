//! Cases on runs.

/// Passes every case on runs to a macro.
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
                rewinding_is_refused, a_run_that_is_being_restored_is_not_merged,
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
            runs::messages {
                comes_with_a_new_event, repeated_append_writes_neither, retried_transaction, in_one_batch,
                with_the_first_events, in_an_open_transaction, refused_together,
            }
            runs::merge {
                what_one_side_appended_travels, what_the_target_appended_stays, both_conflict_under_strict,
                theirs_appends_what_is_missing, theirs_brings_what_ours_left, ours_keeps_the_target, same_events_are_no_conflict,
                made_on_both_sides, deletions_travel, append_against_deletion, last_merge_is_the_next_base,
                alerts_travel_with_their_events, no_merge_makes_a_run_inconsistent,
                an_inconsistent_run_takes_more, a_rewound_run_is_not_mixed_with_what_it_left,
                what_the_target_deleted_stays_deleted, what_the_source_made_and_deleted_stays_deleted,
                a_deletion_against_a_run_that_was_made_meanwhile,
                all_kinds_in_one_transaction, merged_events_are_told,
            }
            runs::numbers {
                events_keep_their_text, other_numbers_are_other_events, others_refuse_them,
            }
            runs::past {
                every_revision_shows_its_state, before_the_first_is_absent, at_a_stamp,
                deleted_later_is_there, view_stays_where_it_is, future_is_refused, revision_of_an_event,
                list_of_then,
            }
            runs::reducer {
                every_transition_of_a_run, every_transition_of_a_step, nothing_follows_the_end,
                failed_attempt_is_immutable, a_paused_run_begins_nothing, steps_are_independent,
                late_event_of_a_closed_attempt, event_of_an_attempt_to_come, event_without_an_attempt,
                attempts_in_a_kept_snapshot,
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
                imported_branch_lives_on, deleted_stays_deleted,
            }
        }
    };
}

/// Passes every case on runs that needs a database on disk to a macro.
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

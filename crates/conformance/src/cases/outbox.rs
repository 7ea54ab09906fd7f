//! Cases on the outbox.

/// Passes every case on the outbox to a macro.
#[macro_export]
macro_rules! every_outbox_case {
    ($make:ident) => {
        $make! {
            outbox::branches {
                a_fork_inherits_nothing, nothing_is_delivered_from_a_branch, served_branches_deliver_their_own,
                a_merge_brings_messages_in_order, each_message_is_brought_once, once_by_any_way,
                what_a_fork_inherits_travels_with_it, a_fork_of_the_past_lacks_what_came_later,
                an_event_and_its_message_travel_together, ours_brings_messages_without_an_event,
                an_event_that_both_have_sends_one_message, messages_that_were_left_come_with_their_events,
                a_message_that_one_branch_did_not_need_comes_to_others, a_rewound_event_takes_its_message_along,
                a_message_that_was_left_comes_by_any_way, a_message_that_was_replaced_never_comes,
                a_message_that_was_replaced_elsewhere_comes, an_event_that_comes_again_without_a_message_has_none,
                messages_come_in_the_order_of_their_events, a_deleted_run_takes_its_messages_along,
                an_import_keeps_events_and_messages_together, an_import_keeps_messages_of_events_that_came_again,
                a_difference_shows_messages, messages_go_with_their_branch, messages_are_exported_with_their_branch,
                an_export_of_main_has_its_messages, requests_to_clients_wait_for_the_merge,
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

/// Passes every case on the outbox that needs a database on disk to a macro.
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

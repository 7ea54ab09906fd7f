//! Registry of all record store cases with their required capabilities.
//!
//! A case that is not listed here does not run; `tests/listed.rs` checks that every case is listed.

use crate::need::{Need, StoreCase as Case};

/// Passes every record store case to a macro, as `area::file { case [Need, …] lacking Need, … }`.
#[macro_export]
macro_rules! every_store_case {
    ($make:ident) => {
        $make! {
            stores::closing {
                ping_is_true_while_open, closed_says_so, closing_again_is_nothing,
            }
            stores::conditions {
                right_counter_writes [CounterConditions], stale_counter_loses [CounterConditions],
                counter_of_nothing_loses [CounterConditions],
                absence_makes_it_once [CounterConditions],
                stale_counter_loses_across_deletion [CounterConditions, LastingCounters],
                existence_is_a_condition [CounterConditions],
                delete_on_the_counter [CounterConditions],
                bad_writes_are_refused_whatever_is_there [CounterConditions],
            }
            stores::delete {
                says_whether_it_was_there, deleted_is_invisible_everywhere,
                made_anew_has_no_old_fields, counters_rise, reading_counts_nothing,
                counters_survive_deletion [LastingCounters],
                counters_survive_expiry [LastingCounters, Ttl],
            }
            stores::expiry {
                expired_is_invisible_everywhere [Ttl], exact_to_the_millisecond [Ttl, HandClock],
                expires_is_told [Ttl], other_writes_leave_it [Ttl],
                swaps_leave_it [Ttl, FieldConditions], put_changes_it [Ttl],
                expire_changes_it [Ttl], bad_times_are_refused [Ttl],
                lives_until_a_moment [Ttl], next_write_makes_another [Ttl],
                expired_is_absent_to_conditions [Ttl, CounterConditions],
            }
            stores::fences {
                holder_writes [Fences], other_token_is_fenced [Fences], gone_is_fenced [Fences],
                expired_is_fenced [Fences, Ttl], is_told_first [Fences, SeveralConditions],
                delete_can_be_fenced [Fences], lease_is_extended_under_its_fence [Fences, Ttl], grants_end_the_ones_before [Fences, Revisions],
            }
            stores::fields {
                set_field_upserts, get_field_reads_one, get_some_reads_those_asked_for,
                cleared_is_gone, last_field_gone_is_the_record_gone, clearing_of_nothing_says_so,
            }
            stores::filters {
                equality_is_of_bytes, one_of_several, numbers_order_numerically,
                others_order_by_bytes, ranges_keep_to_the_class_of_their_bound,
                without_the_field_nothing_matches, filters_are_anded, follows_every_write,
            }
            stores::history {
                newest_first [History], deletions_are_entries [History],
                pages_give_everything_once [History], limits_are_checked [History],
            }
            stores::indexes {
                change_no_answer [Indexes], listed_until_dropped [Indexes],
                of_nothing_is_refused [Indexes],
            }
            stores::lacking {
                ttl lacking Ttl, counter_conditions lacking CounterConditions,
                field_conditions lacking FieldConditions,
                several_conditions [CounterConditions] lacking SeveralConditions,
                fences lacking Fences, revisions lacking Revisions, times lacking Times,
                sums lacking Sums, history lacking History, picks lacking Picks,
                indexes lacking Indexes,
            }
            stores::lifetime {
                left_alone_is_gone [StoreTtl], write_begins_it_anew [StoreTtl],
            }
            stores::naming {
                bad_keys_are_refused, longest_names_are_taken, bad_fields_are_refused,
                field_twice_is_refused, too_large_leaves_what_was, too_many_fields_are_refused,
            }
            stores::picks {
                first_key_that_passes [Picks], first_by_a_field [Picks],
                of_nothing_is_refused [Picks], each_is_picked_once [Picks],
                bad_time_to_live_is_refused [Picks, Ttl],
            }
            stores::programs {
                of_every_write, with_time_going_by [Ttl, HandClock],
            }
            stores::put {
                never_written_is_absent, makes_a_record, merges_fields,
                replace_drops_other_fields, of_nothing_is_refused, bytes_survive,
                records_are_independent, get_tells_everything, sets_and_clears_in_one,
            }
            stores::races {
                one_swap_wins [FieldConditions], one_maker_wins [CounterConditions],
                one_deletion_wins [CounterConditions], fields_of_others_stay,
                swap_loops_lose_nothing [CounterConditions], sums_lose_nothing [Sums],
                revisions_are_not_shared [Revisions],
            }
            stores::scan {
                goes_in_key_order, keeps_to_the_prefix, cursor_gives_everything_once,
                cursor_outlives_its_record, cursor_of_another_scan_is_refused,
                filters_come_before_the_limit, no_cursor_behind_the_last_match,
                limits_are_checked, count_agrees_with_scan, page_is_of_one_time [Snapshots],
            }
            stores::swap {
                right_bytes_win [FieldConditions], other_bytes_lose [FieldConditions],
                missing_loses [FieldConditions], absent_is_its_own_form [FieldConditions],
                expired_loses [FieldConditions, Ttl],
                all_must_hold [FieldConditions, SeveralConditions],
                full_form_is_one_step [FieldConditions, SeveralConditions, Ttl],
                conditions_see_the_state_before [FieldConditions],
                delete_on_a_field [FieldConditions],
            }
            stores::values {
                revisions_only_rise [Revisions], time_is_the_stores_own [Times],
                sum_adds [Sums], sum_of_no_number_is_refused [Sums],
                sum_overflow_is_refused [Sums],
            }
        }
    };
}

/// Generates a test for every record store case. The expression creates a world for each test.
///
/// ```
/// mainstay_conformance::test_store!(in_memory, mainstay_conformance::World::memory());
/// ```
#[macro_export]
macro_rules! test_store {
    ($name:ident, $world:expr) => {
        $crate::test_listed! { ($) $name, $world, every_store_case, $crate::store_cases::ALL }
    };
}

/// Generates a test for every case of a list. `$every` is the macro that lists the cases, `$all` is
/// their table.
#[macro_export]
macro_rules! test_listed {
    // The `$d` token is a dollar sign for the nested macro.
    (($d:tt) $name:ident, $world:expr, $every:ident, $all:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "the world may be made with what is around it")]
            use super::*;

            fn run(name: &str) {
                let case = $all.iter().find(|case| case.name == name).expect("it is listed");
                case.run(&$world);
            }

            macro_rules! make {
                        ($d($area:ident :: $file:ident { $d($case:ident $d([$d($need:ident),*])?
                            $d(lacking $lack:ident)?,)* })*) => {
                            $d(mod $file {
                                $d(#[test]
                                fn $case() {
                                    super::run(concat!(stringify!($file), "::", stringify!($case)));
                                })*
                            })*
                        };
                    }

            $crate::$every!(make);
        }
    };
}

/// Generates the table of the listed cases. `Case` and `Need` resolve at the call site.
#[macro_export]
#[doc(hidden)]
macro_rules! table_of_cases {
    ($($area:ident :: $file:ident { $($case:ident $([$($need:ident),*])?
        $(lacking $lack:ident)?,)* })*) => {
        /// Every case.
        pub const ALL: &[Case] = &[$($(Case {
            name: concat!(stringify!($file), "::", stringify!($case)),
            needs: &[$($(Need::$need),*)?],
            lacks: $crate::lack_of_case!($($lack)?),
            body: $crate::$area::$file::$case,
        },)*)*];
    };
}

#[macro_export]
#[doc(hidden)]
macro_rules! lack_of_case {
    () => {
        None
    };
    ($lack:ident) => {
        Some(Need::$lack)
    };
}

every_store_case!(table_of_cases);

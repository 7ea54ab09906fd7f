//! Bugs on purpose: simulated worlds find these. Others need threads, or are no harm where one server has one disk.

use mainstay::planted::{Bug, plant};
use mainstay_sessions::Planted;
use mainstay_sim::world::{Script, live};
use std::sync::Mutex;

/// How many worlds are looked at before a bug counts as not found.
const WORLDS: u64 = 400;

/// Bugs are planted in all databases of the process: one at a time.
static ONE: Mutex<()> = Mutex::new(());

/// What the first world says in which something goes wrong.
fn first_wrong(change: impl Fn(&mut Script)) -> Option<(u64, String)> {
    (1..=WORLDS).find_map(|seed| {
        let mut script = Script::of(seed);
        change(&mut script);
        live(&script, false).wrong.map(|wrong| (seed, wrong))
    })
}

fn find(bug: Bug) {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    plant(Some(bug));
    let found = first_wrong(|_| {});
    plant(None);
    let (seed, wrong) = found.unwrap_or_else(|| panic!("{bug:?} was not found in {WORLDS} worlds"));
    println!("{bug:?}: seed {seed}, {wrong}");
}

fn find_in_client(bug: Planted) {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let found = first_wrong(|script| script.planted = Some(bug));
    let (seed, wrong) = found.unwrap_or_else(|| panic!("{bug:?} was not found in {WORLDS} worlds"));
    println!("{bug:?}: seed {seed}, {wrong}");
}

macro_rules! bugs {
    ($find:ident $(, $name:ident: $bug:expr)*) => {
        $(#[test]
        fn $name() {
            $find($bug);
        })*
    };
}

bugs!(
    find,
    an_answer_before_the_sync: Bug::AnswerBeforeSync,
    a_log_that_is_never_synced: Bug::NoSyncOfLog,
    a_response_that_is_not_kept: Bug::ResponseForgotten,
    a_feed_that_skips: Bug::FeedSkips,
    a_replay_of_first_effects: Bug::FirstEffectOnly,
    a_mark_that_is_too_far: Bug::MarkTooFar,
    a_latch_that_is_forgotten: Bug::LatchForgotten,
    a_flush_before_the_sync: Bug::NoSyncBeforeFlush,
    a_roll_before_the_sync: Bug::NoSyncBeforeRoll,
    a_segment_without_a_synced_name: Bug::NoSyncOfSegmentName,
    a_rewritten_end_that_is_not_synced: Bug::NoSyncOfRewritten,
    frames_that_are_believed: Bug::ChecksumIgnored
);

bugs!(
    find_in_client,
    a_new_number_for_each_attempt: Planted::NewNumber,
    a_number_that_is_used_again: Planted::ReusedNumber,
    a_lowest_number_that_is_too_high: Planted::LowestTooHigh,
    a_letter_that_is_acknowledged_first: Planted::AcknowledgedFirst,
    a_letter_that_is_forgotten: Planted::HandledForgotten,
    a_request_of_any_epoch: Planted::AnyEpoch,
    a_wrong_promise_about_a_session_that_is_gone: Planted::AlwaysExpired
);

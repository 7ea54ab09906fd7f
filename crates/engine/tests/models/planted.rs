//! Bugs that the models have to find, each within as many schedules as are run without it.

use crate::checker::finds;
use crate::{answers, branches, failures, room, visibility, watching};
use mainstay::planted::Bug;

#[test]
fn answers_before_the_sync_are_found() {
    finds(Bug::AnswerBeforeSync, answers::mixed, "acknowledged before it was synced");
}

#[test]
fn an_executor_let_go_without_a_look_is_found() {
    finds(Bug::CombineOnce, answers::held, "deadlock");
}

#[test]
fn gathered_work_that_is_forgotten_is_found() {
    finds(Bug::GatheredForgotten, answers::pair, "deadlock");
}

#[test]
fn listeners_who_are_not_told_are_found() {
    finds(Bug::ListenersNotTold, watching::waiting, "deadlock");
}

#[test]
fn a_log_thread_that_is_not_woken_is_found() {
    finds(Bug::LogNotWoken, answers::mixed, "deadlock");
}

#[test]
fn floors_that_rise_before_the_sync_are_found() {
    finds(Bug::NoSyncBeforeFloors, branches::floors, "let go of before its removal was synced");
}

#[test]
fn publishing_before_the_sync_is_found() {
    finds(Bug::PublishBeforeSync, visibility::readers, "before it was synced");
}

#[test]
fn room_that_is_lost_is_found() {
    finds(Bug::RefusedStayCounted, room::room, "max_steps");
}

#[test]
fn a_sync_that_waits_for_room_is_found() {
    finds(Bug::SyncWaitsForRoom, room::buffers, "max_steps");
}

#[test]
fn a_bell_that_is_looked_at_too_late_is_found() {
    finds(Bug::RungReadLate, answers::crowd, "deadlock");
}

#[test]
fn listeners_who_are_told_before_they_sleep_are_found() {
    finds(Bug::ToldWithoutLock, watching::waiting, "deadlock");
}

#[test]
fn an_undo_that_forgets_what_came_later_is_found() {
    finds(Bug::UndoForgetsLater, failures::full, "nothing is written any more");
}

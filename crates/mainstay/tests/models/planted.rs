//! Injected faults that the models must find, each within the usual number of schedules.

use crate::checker::finds;
use crate::{answers, branches, failures, room, visibility, watching};
use mainstay::fault_points::InjectedFault;

#[test]
fn answers_before_the_sync_are_found() {
    finds(InjectedFault::AnswerBeforeSync, answers::mixed, "acknowledged before it was synced");
}

#[test]
fn an_executor_let_go_without_a_look_is_found() {
    finds(InjectedFault::CombineOnce, answers::held, "deadlock");
}

#[test]
fn gathered_work_that_is_forgotten_is_found() {
    finds(InjectedFault::GatheredForgotten, answers::pair, "deadlock");
}

#[test]
fn listeners_who_are_not_told_are_found() {
    finds(InjectedFault::ListenersNotTold, watching::waiting, "deadlock");
}

#[test]
fn a_log_thread_that_is_not_woken_is_found() {
    finds(InjectedFault::LogNotWoken, answers::mixed, "deadlock");
}

#[test]
fn floors_that_rise_before_the_sync_are_found() {
    finds(
        InjectedFault::NoSyncBeforeFloors,
        branches::floors,
        "let go of before its removal was synced",
    );
}

#[test]
fn publishing_before_the_sync_is_found() {
    finds(InjectedFault::PublishBeforeSync, visibility::readers, "before it was synced");
}

#[test]
fn room_that_is_lost_is_found() {
    finds(InjectedFault::RefusedStayCounted, room::room, "max_steps");
}

#[test]
fn a_sync_that_waits_for_room_is_found() {
    finds(InjectedFault::SyncWaitsForRoom, room::buffers, "max_steps");
}

#[test]
fn a_bell_that_is_looked_at_too_late_is_found() {
    finds(InjectedFault::RungReadLate, answers::crowd, "deadlock");
}

#[test]
fn listeners_who_are_told_before_they_sleep_are_found() {
    finds(InjectedFault::ToldWithoutLock, watching::waiting, "deadlock");
}

#[test]
fn an_undo_that_forgets_what_came_later_is_found() {
    finds(InjectedFault::UndoForgetsLater, failures::full, "nothing is written any more");
}

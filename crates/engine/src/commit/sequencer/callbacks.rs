//! Completion callbacks: called with no lock held, one after the other, never nested.
//!
//! ```text
//!   answers of a group:  waiters first, woken by one call     ->  then the callbacks
//!   a callback executes: the group it logs has callbacks, too ->  they queue behind it
//! ```
//!
//! If they ran at once, the callbacks of the next group would nest on the stack, as deep as the load is
//! steady.

use crate::base::sync::thread_local;
use crate::commit::ticket::{Callback, Completion, Sleepers};
use mainstay_model::{Receipt, Result};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

type Call = (Callback, Result<Receipt>);

thread_local! {
    /// The callbacks that this thread has to call next; `None` while it calls none. The list is not
    /// dropped with the thread, so that callbacks that arrive while a thread ends are called, too.
    static CALLS: RefCell<ManuallyDrop<Option<VecDeque<Call>>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

/// Returns whether this thread may be running a caller's callback.
pub(super) fn is_calling() -> bool {
    CALLS.with(|calls| calls.borrow().is_some())
}

/// Gives out answers. Sleeping waiters are woken first, so that none waits for a callback to end.
pub(super) fn answer(answers: impl Iterator<Item = (Completion, Result<Receipt>)>) {
    let mut sleepers = Sleepers::default();
    let mut calls = VecDeque::new();
    for (completion, result) in answers {
        match completion {
            Completion::Waiter(waiter) => sleepers.settle(waiter, result),
            Completion::Part(batch, place) => sleepers.settle_part(&batch, place, result),
            Completion::Callback(callback) => calls.push_back((callback, result)),
        }
    }
    sleepers.wake();
    if !calls.is_empty() {
        call_in_turn(calls);
    }
}

/// Calls the callbacks. Inside a callback, leaves them to the thread's outermost loop.
fn call_in_turn(mut calls: VecDeque<Call>) {
    let is_inside = CALLS.with(|waiting| {
        let mut waiting = waiting.borrow_mut();
        match waiting.as_mut() {
            Some(waiting) => {
                waiting.append(&mut calls);
                true
            }
            None => {
                **waiting = Some(calls);
                false
            }
        }
    });
    if is_inside {
        return;
    }
    while let Some((callback, result)) = next_call() {
        // The panic hook has already reported the panic. The other callbacks still run.
        let _ = catch_unwind(AssertUnwindSafe(|| callback(result)));
    }
}

/// Returns the next callback for the outermost loop. If the queue is empty, marks the thread as not
/// calling.
fn next_call() -> Option<Call> {
    CALLS.with(|waiting| {
        let mut waiting = waiting.borrow_mut();
        let next = waiting.as_mut().and_then(VecDeque::pop_front);
        if next.is_none() {
            waiting.take();
        }
        next
    })
}

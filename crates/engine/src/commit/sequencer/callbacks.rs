//! Callbacks: called with no lock held, one after the other, never one inside another.
//!
//! ```text
//!   answers of a group:  waiters first, woken with one ring  ->  then the callbacks
//!   a callback executes: the group it drives has callbacks, too  ->  they queue behind it
//! ```
//!
//! Called at once, those of the next group would nest on the stack as deep as the load is steady.

use crate::base::sync::thread_local;
use crate::commit::ticket::{Callback, Completion, Sleepers};
use mainstay_model::{Receipt, Result};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

type Call = (Callback, Result<Receipt>);

thread_local! {
    /// What this thread has to call next; nothing while it calls nobody. It is not dropped with the
    /// thread, so that callbacks that come up while a thread ends are called, too.
    static CALLS: RefCell<ManuallyDrop<Option<VecDeque<Call>>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

/// Whether this thread may be running a caller's callback.
pub(super) fn is_calling() -> bool {
    CALLS.with(|calls| calls.borrow().is_some())
}

/// Gives out answers. Nobody who sleeps waits for a callback to end.
pub(super) fn answer(answers: impl Iterator<Item = (Completion, Result<Receipt>)>) {
    let (mut sleepers, mut calls) = (Sleepers::default(), VecDeque::new());
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

/// Calls, or leaves it to the thread's outermost loop if this is inside a callback.
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
        // The panic was reported when it happened; it harms nobody else.
        let _ = catch_unwind(AssertUnwindSafe(|| callback(result)));
    }
}

/// The next one for the outermost loop; when there is none, the thread is done with calling.
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

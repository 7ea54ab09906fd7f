//! Describes a history that is not linearizable.

use super::search::{Found, Search};
use super::{CallTo, Model};
use std::fmt::Write;

/// How many calls are shown before the ones at fault.
const BEFORE: usize = 6;

/// Describes the shortest prefix without a valid order: its last response cannot be correct. Shows the
/// calls concurrent with it.
pub fn of<M: Model>(calls: &[CallTo<M>]) -> String {
    let until = shortest::<M>(calls);
    let mut text = format!("no order explains the {} calls up to moment {until}", calls.len());
    if let Found::Nothing { most, state } = Search::<M>::new(calls, until).run() {
        // Writing to a `String` never fails.
        let _ = write!(text, "; {most} of them lead to {state:?}, and then none can be next");
    }
    for call in window(calls, until) {
        let _ = write!(text, "\n  {}", line(call, until));
    }
    text
}

/// Returns the first moment from which on no valid order exists.
fn shortest<M: Model>(calls: &[CallTo<M>]) -> u64 {
    let mut moments: Vec<u64> = calls.iter().map(|call| call.returned()).collect();
    moments.sort_unstable();
    let is_fine =
        |moment: &u64| !matches!(Search::<M>::new(calls, *moment).run(), Found::Nothing { .. });
    let place = moments.partition_point(is_fine);
    moments.get(place).copied().unwrap_or(u64::MAX)
}

/// Returns the calls that are or may be concurrent with the last one, and a few before them.
fn window<A, R>(calls: &[super::Call<A, R>], until: u64) -> Vec<&super::Call<A, R>> {
    let last = calls.iter().find(|call| call.returned() == until);
    let from = last.map_or(until, |call| call.invoked);
    let mut begun: Vec<_> = calls.iter().filter(|call| call.invoked <= until).collect();
    begun.sort_by_key(|call| call.returned());
    let over = begun.partition_point(|call| call.returned() < from);
    let mut shown = begun.split_off(over.saturating_sub(BEFORE));
    shown.sort_by_key(|call| call.invoked);
    shown
}

fn line<A: std::fmt::Debug, R: std::fmt::Debug>(call: &super::Call<A, R>, until: u64) -> String {
    let super::Call { thread, invoked, asked, .. } = call;
    match call.answer_by(until) {
        Some((returned, answer)) => {
            format!("{invoked}..{returned} thread {thread}: {asked:?} -> {answer:?}")
        }
        None if call.answer.is_some() => {
            format!("{invoked}.. thread {thread}: {asked:?} -> not answered yet")
        }
        None => format!("{invoked}.. thread {thread}: {asked:?} -> not known"),
    }
}

//! Depth-first search for a linearization.
//!
//! ```text
//!   done: low ........ undone calls in order of invocation
//!                      |--a--|
//!                        |---b-----|
//!                              |c|          next can be a or b: c began after a had returned
//! ```

use super::{CallTo, Frontier, Model};
use std::collections::HashSet;

/// The number of visited states after which the search gives up, because it would not end in reasonable
/// time.
const PLACES_LIMIT: usize = 1_000_000;

/// The result of a search.
pub enum Found<S> {
    /// An order in which every response is correct exists.
    Order,
    /// No such order exists; the most calls that could be linearized, and the resulting state.
    Nothing { most: usize, state: S },
    /// Undecided: the search exceeded its limit.
    TooMuch,
}

/// A search over the calls to one key.
pub struct Search<'c, M: Model> {
    /// Calls with a response in order of invocation, then calls without one.
    calls: Vec<&'c CallTo<M>>,
    settled: u32,
    until: u64,
    tried: HashSet<(Frontier, M::State)>,
}

/// A node of the search: the linearized calls, the state, and the candidates for the next call.
struct Place<S> {
    done: Frontier,
    state: S,
    next: Vec<u32>,
}

impl<'c, M: Model> Search<'c, M> {
    /// Creates a search over the knowledge at one moment: later calls do not exist, and later responses
    /// have not arrived.
    pub fn new(calls: &'c [CallTo<M>], until: u64) -> Search<'c, M> {
        let begun = calls.iter().filter(|call| call.invoked <= until);
        let (mut calls, mut open): (Vec<_>, Vec<_>) =
            begun.partition(|call| call.answer_by(until).is_some());
        calls.sort_by_key(|call| call.invoked);
        open.sort_by_key(|call| call.invoked);
        let settled = calls.len() as u32;
        calls.append(&mut open);
        Search { calls, settled, until, tried: HashSet::new() }
    }

    /// Runs the search.
    pub fn run(mut self) -> Found<M::State> {
        let mut path = vec![self.place(Frontier::default(), M::State::default())];
        let mut best = (0, M::State::default());
        while let Some(place) = path.last_mut() {
            if place.done.low() == self.settled {
                return Found::Order;
            }
            if self.tried.len() > PLACES_LIMIT {
                return Found::TooMuch;
            }
            let Some(call) = place.next.pop() else {
                path.pop();
                continue;
            };
            let Some((done, state)) = self.step(place, call) else { continue };
            if done.len() > best.0 {
                best = (done.len(), state.clone());
            }
            path.push(self.place(done, state));
        }
        Found::Nothing { most: best.0, state: best.1 }
    }

    /// Returns the node after one more call, if its response is correct and the node is new.
    fn step(&mut self, place: &Place<M::State>, call: u32) -> Option<(Frontier, M::State)> {
        let asked = self.calls[call as usize];
        let (state, answer) = M::apply(&place.state, &asked.asked);
        match asked.answer_by(self.until) {
            Some((_, given)) if *given != answer => return None,
            // A call without a response that would change nothing need not be linearized.
            None if state == place.state => return None,
            _ => {}
        }
        let there = (place.done.with(call, self.settled), state);
        self.tried.insert(there.clone()).then_some(there)
    }

    fn place(&self, done: Frontier, state: M::State) -> Place<M::State> {
        let (mut next, bound) = self.settled_next(&done);
        if let Some(sure) = next.iter().copied().find(|call| self.is_sure(&state, *call)) {
            return Place { done, state, next: vec![sure] };
        }
        // Calls that returned first are tried first, and calls that never returned last. Candidates are
        // taken from the end.
        next.sort_by_key(|call| std::cmp::Reverse(self.calls[*call as usize].returned()));
        let open = (self.settled..self.calls.len() as u32)
            .filter(|call| self.calls[*call as usize].invoked < bound && !done.has(*call));
        let next = open.chain(next).collect();
        Place { done, state, next }
    }

    /// Returns the candidates with a response, and the moment before which a call must have begun to be
    /// a candidate.
    fn settled_next(&self, done: &Frontier) -> (Vec<u32>, u64) {
        let mut bound = u64::MAX;
        let mut next = Vec::new();
        for call in (done.low()..self.settled).filter(|call| !done.has(*call)) {
            let one = self.calls[call as usize];
            if one.invoked > bound {
                break;
            }
            bound = bound.min(one.returned());
            next.push(call);
        }
        (next, bound)
    }

    /// Returns whether a call can be linearized next without loss: it is correct here and changes
    /// nothing. Any valid order remains valid with this call moved to the front.
    fn is_sure(&self, state: &M::State, call: u32) -> bool {
        let call = self.calls[call as usize];
        let (after, answer) = M::apply(state, &call.asked);
        after == *state && call.answer_by(self.until).is_some_and(|(_, given)| *given == answer)
    }
}

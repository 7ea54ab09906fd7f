//! The search for an order.
//!
//! ```text
//!   done: low ........ undone calls in order of invocation
//!                      |--a--|
//!                        |---b-----|
//!                              |c|          next can be a or b: c began when a was over
//! ```

use super::{CallTo, Frontier, Model};
use std::collections::HashSet;

/// So many places and a search is given up: it would not end today.
const PLACES_LIMIT: usize = 1_000_000;

/// What a search has found.
pub enum Found<S> {
    /// An order in which every answer is right.
    Order,
    /// That there is none; the most calls that could be put in order, and what they led to.
    Nothing { most: usize, state: S },
    /// Neither: there is too much to try.
    TooMuch,
}

/// A search over the calls to one key.
pub struct Search<'c, M: Model> {
    /// Those with an answer in order of invocation, then those without.
    calls: Vec<&'c CallTo<M>>,
    settled: u32,
    until: u64,
    tried: HashSet<(Frontier, M::State)>,
}

/// A place on the way: what is done, what it led to, and what can be next.
struct Place<S> {
    done: Frontier,
    state: S,
    next: Vec<u32>,
}

impl<'c, M: Model> Search<'c, M> {
    /// A search over what was known at a moment: later calls are not there, later answers have not come.
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

    /// Looks for an order.
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

    /// Where one more call leads, if its answer is right and nobody has been there.
    fn step(&mut self, place: &Place<M::State>, call: u32) -> Option<(Frontier, M::State)> {
        let asked = self.calls[call as usize];
        let (state, answer) = M::apply(&place.state, &asked.asked);
        match asked.answer_by(self.until) {
            Some((_, given)) if *given != answer => return None,
            // It need not have happened, and it would have changed nothing.
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
        // What came back first is tried first, what never did last: the last one is taken.
        next.sort_by_key(|call| std::cmp::Reverse(self.calls[*call as usize].returned()));
        let open = (self.settled..self.calls.len() as u32)
            .filter(|call| self.calls[*call as usize].invoked < bound && !done.has(*call));
        let next = open.chain(next).collect();
        Place { done, state, next }
    }

    /// The calls with an answer that can be next, and the moment before which a call must have begun to be one.
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

    /// Whether a call can be next without a loss: it is right here and changes nothing, so whatever order there is, there is
    /// one with it in front.
    fn is_sure(&self, state: &M::State, call: u32) -> bool {
        let call = self.calls[call as usize];
        let (after, answer) = M::apply(state, &call.asked);
        after == *state && call.answer_by(self.until).is_some_and(|(_, given)| *given == answer)
    }
}

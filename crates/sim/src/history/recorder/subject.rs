//! Adapters: translate the models' requests into commands, and the database's answers into responses.

use super::super::linear::Model;
use mainstay::{Answer, Command, Database, Result};
use mainstay_conformance::random::Random;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A kind of object that the database has and a model describes.
pub trait Subject: Model<Asked: Clone + Send, Answered: Clone + Send> + Sized {
    /// The prefix of its keys.
    const PREFIX: &'static str;
    /// The request that reads every key at the end.
    const LAST: Self::Asked;

    /// Returns a random request; `value` was never written before.
    fn choose(random: &mut Random, hint: Hint, value: i64) -> Self::Asked;

    /// Returns whether a request changes nothing in any state.
    fn is_read(asked: &Self::Asked) -> bool;

    /// Returns the request as a command.
    fn command(asked: &Self::Asked, name: &str) -> Result<Command>;

    /// Returns the response; `None` if the answer does not fit the request.
    fn answered(asked: &Self::Asked, answer: &Answer) -> Option<Self::Answered>;

    /// Reads from a snapshot, as handles do, if the request can be answered that way.
    fn look(db: &Database, name: &str, asked: &Self::Asked) -> Option<Result<Answer>>;

    /// Returns the part of a response that a later compare-and-swap needs.
    fn told(answered: &Self::Answered) -> Option<Hint>;
}

/// A recent observation of a key.
#[derive(Clone, Copy, Default)]
pub struct Hint {
    /// The key's counter.
    pub counter: u64,
    /// A value of the key.
    pub value: i64,
}

/// The last hint of each key, shared by all threads, so that a compare-and-swap has a chance to
/// succeed.
pub struct Hints(Vec<(AtomicU64, AtomicI64)>);

impl Hints {
    /// Creates empty hints.
    pub fn new(keys: usize) -> Hints {
        Hints((0..keys).map(|_| Default::default()).collect())
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the hint of a key. Counter and value may be from different moments.
    pub fn of(&self, key: usize) -> Hint {
        let (counter, value) = &self.0[key];
        let counter = counter.load(Ordering::Relaxed);
        let value = value.load(Ordering::Relaxed);
        Hint { counter, value }
    }

    /// Records an observation of a key.
    pub fn note(&self, key: usize, hint: Hint) {
        let (counter, value) = &self.0[key];
        counter.store(hint.counter, Ordering::Relaxed);
        if hint.value != 0 {
            value.store(hint.value, Ordering::Relaxed);
        }
    }
}

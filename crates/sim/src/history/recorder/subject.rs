//! Subjects: the models' questions as commands, and the database's answers as theirs.

use super::super::linear::Model;
use mainstay::{Answer, Command, Database, Result};
use mainstay_conformance::random::Random;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A kind of thing that a database has and a model describes.
pub trait Subject: Model<Asked: Clone + Send, Answered: Clone + Send> + Sized {
    /// What its keys begin with.
    const PREFIX: &'static str;
    /// What is asked of every key in the end.
    const LAST: Self::Asked;

    /// Something to ask; `value` was never written before.
    fn choose(random: &mut Random, hint: Hint, value: i64) -> Self::Asked;

    /// Whether it changes nothing, whatever is there.
    fn is_read(asked: &Self::Asked) -> bool;

    /// The question as a command.
    fn command(asked: &Self::Asked, name: &str) -> Result<Command>;

    /// The answer to the question; nothing if it is none.
    fn answered(asked: &Self::Asked, answer: &Answer) -> Option<Self::Answered>;

    /// Reads beside the writer, as handles do, what can be read so.
    fn look(db: &Database, name: &str, asked: &Self::Asked) -> Option<Result<Answer>>;

    /// What an answer tells whoever wants to compare and swap.
    fn told(answered: &Self::Answered) -> Option<Hint>;
}

/// What somebody has seen of a key lately.
#[derive(Clone, Copy, Default)]
pub struct Hint {
    /// Its counter.
    pub counter: u64,
    /// A value of it.
    pub value: i64,
}

/// The last hint of each key, for all threads: whoever compares has a chance to win.
pub struct Hints(Vec<(AtomicU64, AtomicI64)>);

impl Hints {
    /// Nothing is known yet.
    pub fn new(keys: usize) -> Hints {
        Hints((0..keys).map(|_| Default::default()).collect())
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// What is known of a key; the two may be of different moments.
    pub fn of(&self, key: usize) -> Hint {
        let (counter, value) = &self.0[key];
        let (counter, value) = (counter.load(Ordering::Relaxed), value.load(Ordering::Relaxed));
        Hint { counter, value }
    }

    /// Somebody has seen a key.
    pub fn note(&self, key: usize, hint: Hint) {
        let (counter, value) = &self.0[key];
        counter.store(hint.counter, Ordering::Relaxed);
        if hint.value != 0 {
            value.store(hint.value, Ordering::Relaxed);
        }
    }
}

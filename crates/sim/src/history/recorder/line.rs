//! The calls of one thread to objects of one kind.
//!
//! ```text
//!   ask ──execute──────────> answer        one after the other
//!       ──submit... wait───> answer        several at once
//!       ──execute_all──────> answers       together
//!       ──submit, no wait: the outcome is unknown
//!       ──look─────────────> answer        a snapshot read, without the writer
//! ```

use super::super::call::Call;
use super::super::linear::CallTo;
use super::stage::{Stage, Verdict};
use super::subject::{Hints, Subject};
use crate::drill::Outcome;
use mainstay::{Answer, Database, Durability, Receipt, Result, Ticket, Transaction};
use mainstay_conformance::random::Random;

/// The most answers that are outstanding at once.
const WAITING: usize = 6;
/// The number of moments for which all threads prefer the same key.
const HOT: u64 = 150;
/// The most calls per thread and kind whose answer is not awaited.
const FORGOTTEN: usize = 3;

/// The context of a call.
pub struct Scene<'s> {
    /// The database.
    pub db: &'s Database,
    /// The state that all threads share.
    pub stage: &'s Stage,
    /// The calling thread.
    pub thread: u64,
}

/// The calls of one thread to objects of one kind.
pub struct Line<S: Subject> {
    /// Each call with its key.
    pub calls: Vec<(usize, CallTo<S>)>,
    waiting: Vec<(Question<S>, Ticket)>,
    forgotten: usize,
}

impl<S: Subject> Default for Line<S> {
    fn default() -> Line<S> {
        Line { calls: Vec::new(), waiting: Vec::new(), forgotten: 0 }
    }
}

/// A call in progress.
struct Question<S: Subject> {
    key: usize,
    invoked: u64,
    asked: S::Asked,
}

impl<S: Subject> Line<S> {
    /// Calls an object in one of several ways. Returns the number of calls.
    pub fn act(
        &mut self,
        scene: &Scene<'_>,
        hints: &Hints,
        random: &mut Random,
        mut value: impl FnMut() -> i64,
    ) -> Outcome<usize> {
        let mut choose = |random: &mut Random| {
            let key = key(scene, hints.len() as u64, random);
            (key, S::choose(random, hints.of(key), value()))
        };
        let first = choose(random);
        let way = random.below(100);
        if way < 12 {
            let others = (0..1 + random.below(3)).map(|_| choose(random));
            let all: Vec<_> = std::iter::once(first).chain(others).collect();
            return self.together(scene, hints, random, all);
        }
        let (key, asked) = first;
        if S::is_read(&asked) && way < 70 && self.look(scene, hints, key, &asked)? {
            return Ok(1);
        }
        match way {
            0..55 => self.execute(scene, hints, random, (key, asked))?,
            55..98 => self.submit(scene, hints, random, (key, asked))?,
            _ => self.forget(scene, random, (key, asked))?,
        }
        Ok(1)
    }

    /// Reads from a snapshot. Returns whether the request can be answered that way.
    fn look(
        &mut self,
        scene: &Scene<'_>,
        hints: &Hints,
        key: usize,
        asked: &S::Asked,
    ) -> Outcome<bool> {
        let question = self.begin(scene, key, asked.clone());
        let Some(answer) = S::look(scene.db, &name::<S>(key), asked) else { return Ok(false) };
        self.settle(scene, hints, question, answer).map(|()| true)
    }

    fn execute(
        &mut self,
        scene: &Scene<'_>,
        hints: &Hints,
        random: &mut Random,
        (key, asked): (usize, S::Asked),
    ) -> Outcome<()> {
        let transaction = transaction::<S>(key, &asked, random)?;
        let question = self.begin(scene, key, asked);
        let answer = scene.db.execute(transaction).and_then(only);
        self.settle(scene, hints, question, answer)
    }

    fn submit(
        &mut self,
        scene: &Scene<'_>,
        hints: &Hints,
        random: &mut Random,
        (key, asked): (usize, S::Asked),
    ) -> Outcome<()> {
        let transaction = transaction::<S>(key, &asked, random)?;
        let question = self.begin(scene, key, asked);
        self.waiting.push((question, scene.db.submit(transaction)));
        if self.waiting.len() >= WAITING || random.chance(20) {
            self.drain(scene, hints)
        } else {
            Ok(())
        }
    }

    fn forget(
        &mut self,
        scene: &Scene<'_>,
        random: &mut Random,
        (key, asked): (usize, S::Asked),
    ) -> Outcome<()> {
        if S::is_read(&asked) || self.forgotten == FORGOTTEN {
            return Ok(());
        }
        self.forgotten += 1;
        let transaction = transaction::<S>(key, &asked, random)?;
        let question = self.begin(scene, key, asked);
        drop(scene.db.submit(transaction));
        self.keep(scene, question, None);
        Ok(())
    }

    fn together(
        &mut self,
        scene: &Scene<'_>,
        hints: &Hints,
        random: &mut Random,
        all: Vec<(usize, S::Asked)>,
    ) -> Outcome<usize> {
        let transactions = all.iter().map(|(key, asked)| transaction::<S>(*key, asked, random));
        let transactions = transactions.collect::<Outcome<Vec<_>>>()?;
        let questions: Vec<_> =
            all.into_iter().map(|(key, asked)| self.begin(scene, key, asked)).collect();
        let count = questions.len();
        let answers = scene.db.execute_all(transactions);
        for (question, answer) in questions.into_iter().zip(answers) {
            self.settle(scene, hints, question, answer.and_then(only))?;
        }
        Ok(count)
    }

    /// Waits for all outstanding answers.
    pub fn drain(&mut self, scene: &Scene<'_>, hints: &Hints) -> Outcome<()> {
        for (question, ticket) in std::mem::take(&mut self.waiting) {
            self.settle(scene, hints, question, ticket.wait().and_then(only))?;
        }
        Ok(())
    }

    /// Reads the final state of every key.
    pub fn finish(&mut self, scene: &Scene<'_>, hints: &Hints, random: &mut Random) -> Outcome<()> {
        (0..hints.len()).try_for_each(|key| self.execute(scene, hints, random, (key, S::LAST)))
    }

    fn begin(&self, scene: &Scene<'_>, key: usize, asked: S::Asked) -> Question<S> {
        Question { key, invoked: scene.stage.moments.next(), asked }
    }

    fn settle(
        &mut self,
        scene: &Scene<'_>,
        hints: &Hints,
        question: Question<S>,
        answer: Result<Answer>,
    ) -> Outcome<()> {
        let returned = scene.stage.moments.next();
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                if scene.stage.judge(&error)? == Verdict::Unknown {
                    self.keep(scene, question, None);
                }
                return Ok(());
            }
        };
        let Some(answered) = S::answered(&question.asked, &answer) else {
            let name = name::<S>(question.key);
            let asked = question.asked;
            return Err(format!("`{name}` was asked {asked:?} and answered {answer:?}"));
        };
        S::told(&answered).into_iter().for_each(|hint| hints.note(question.key, hint));
        self.keep(scene, question, Some((returned, answered)));
        Ok(())
    }

    fn keep(
        &mut self,
        scene: &Scene<'_>,
        question: Question<S>,
        answer: Option<(u64, S::Answered)>,
    ) {
        let Question { key, invoked, asked } = question;
        self.calls.push((key, Call { thread: scene.thread, invoked, asked, answer }));
    }
}

/// Returns a key. Half of all calls go to one hot key, which changes over time.
fn key(scene: &Scene<'_>, keys: u64, random: &mut Random) -> usize {
    let hot = scene.stage.moments.taken() / HOT;
    (if random.chance(50) { hot } else { random.next() } % keys) as usize
}

/// Returns the name of a key.
pub fn name<S: Subject>(key: usize) -> String {
    format!("{}{key:02}", S::PREFIX)
}

fn transaction<S: Subject>(
    key: usize,
    asked: &S::Asked,
    random: &mut Random,
) -> Outcome<Transaction> {
    let command = S::command(asked, &name::<S>(key)).map_err(|error| error.to_string())?;
    let transaction = Transaction::new().step(command);
    Ok(match durability(random) {
        Some(durability) => transaction.durability(durability),
        None => transaction,
    })
}

/// Returns a random durability, or `None` for the default.
pub fn durability(random: &mut Random) -> Option<Durability> {
    match random.below(10) {
        0 => Some(Durability::Memory),
        1 => Some(Durability::Interval),
        2 => Some(Durability::Sync),
        _ => None,
    }
}

fn only(receipt: Receipt) -> Result<Answer> {
    receipt
        .answers
        .into_iter()
        .next()
        .ok_or_else(|| mainstay::Error::new(mainstay::Code::Unsupported, "no answer at all"))
}

//! Adapter between cells and their model.

use super::super::linear::{Cell, CellAnswered, CellAsked};
use super::subject::{Hint, Subject};
use mainstay::{Answer, CellCommand, Command, Database, Name, Number, Result, Value, Versioned};
use mainstay_conformance::random::Random;

impl Subject for Cell {
    const PREFIX: &'static str = "l/c";
    const LAST: CellAsked = CellAsked::Look;

    fn choose(random: &mut Random, hint: Hint, value: i64) -> CellAsked {
        let absent = random.chance(15);
        let expected = (!absent).then_some(hint.counter);
        match random.below(100) {
            0..18 => CellAsked::Get,
            18..36 => CellAsked::Look,
            36..52 => CellAsked::Set(value),
            52..56 => CellAsked::Init(value),
            56..76 => CellAsked::Cas(expected, value),
            76..82 => CellAsked::Delete,
            82..86 => CellAsked::DeleteIf(hint.counter),
            _ => CellAsked::Incr(1 + random.below(3) as i64),
        }
    }

    fn is_read(asked: &CellAsked) -> bool {
        matches!(asked, CellAsked::Get | CellAsked::Look)
    }

    fn command(asked: &CellAsked, name: &str) -> Result<Command> {
        let name = Name::new(name)?;
        Ok(Command::Cell(match *asked {
            CellAsked::Get | CellAsked::Look => CellCommand::Get { name },
            CellAsked::Set(value) => CellCommand::set(name, value),
            CellAsked::Init(value) => CellCommand::Init { name, value: value.into() },
            CellAsked::Cas(expected, value) => {
                CellCommand::Cas { name, expected, value: value.into() }
            }
            CellAsked::Delete => CellCommand::Delete { name, counter: None },
            CellAsked::DeleteIf(counter) => CellCommand::Delete { name, counter: Some(counter) },
            CellAsked::Incr(by) => CellCommand::Incr { name, by: Number::Int(by) },
        }))
    }

    fn answered(asked: &CellAsked, answer: &Answer) -> Option<CellAnswered> {
        Some(match (asked, answer) {
            (CellAsked::Get, Answer::Cell(None)) => CellAnswered::Value(None),
            (CellAsked::Get, Answer::Cell(Some(cell))) => {
                CellAnswered::Value(Some(cell.value.as_i64()?))
            }
            (CellAsked::Look, Answer::Cell(None)) => CellAnswered::Version(None),
            (CellAsked::Look, Answer::Cell(Some(cell))) => {
                CellAnswered::Version(Some((cell.value.as_i64()?, cell.counter)))
            }
            (CellAsked::Set(_) | CellAsked::Init(_), Answer::Counter(counter)) => {
                CellAnswered::Counter(*counter)
            }
            (CellAsked::Cas(..), Answer::MaybeCounter(counter)) => CellAnswered::Maybe(*counter),
            (CellAsked::Delete | CellAsked::DeleteIf(_), Answer::Did(did)) => {
                CellAnswered::Did(*did)
            }
            (CellAsked::Incr(_), Answer::Number { value, counter }) => {
                CellAnswered::Sum(value.as_i64()?, *counter)
            }
            _ => return None,
        })
    }

    fn look(db: &Database, name: &str, asked: &CellAsked) -> Option<Result<Answer>> {
        let cell = match asked {
            CellAsked::Get => db.cells().get(name).map(|value| value.map(bare)),
            CellAsked::Look => db.cells().get_versioned(name),
            _ => return None,
        };
        Some(cell.map(Answer::Cell))
    }

    fn told(answered: &CellAnswered) -> Option<Hint> {
        let counter = match answered {
            CellAnswered::Version(Some((_, counter))) => *counter,
            CellAnswered::Counter(counter) | CellAnswered::Sum(_, counter) => *counter,
            CellAnswered::Maybe(counter) => (*counter)?,
            _ => return None,
        };
        Some(Hint { counter, value: 0 })
    }
}

/// A value without metadata.
fn bare(value: Value) -> Versioned {
    Versioned { value, counter: 0, stamp: 0, revision: 0, expires: None }
}

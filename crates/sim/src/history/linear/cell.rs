//! A cell, as small as it can be told.

use super::Model;

/// A cell that holds whole numbers.
pub struct Cell;

/// What a cell can be asked.
#[derive(Clone, Debug, PartialEq)]
pub enum CellAsked {
    /// Its value.
    Get,
    /// Its value and counter.
    Look,
    /// To hold this.
    Set(i64),
    /// To hold this if it is absent.
    Init(i64),
    /// To hold the value if it has this counter (`None`: if it is absent).
    Cas(Option<u64>, i64),
    /// To go.
    Delete,
    /// To go if it has this counter.
    DeleteIf(u64),
    /// To hold so much more.
    Incr(i64),
}

/// What a cell answers.
#[derive(Clone, Debug, PartialEq)]
pub enum CellAnswered {
    /// Its value.
    Value(Option<i64>),
    /// Its value and counter.
    Version(Option<(i64, u64)>),
    /// Its counter after a write.
    Counter(u64),
    /// The same, if the condition held.
    Maybe(Option<u64>),
    /// Whether it went.
    Did(bool),
    /// Its value and counter after an addition.
    Sum(i64, u64),
}

/// What a cell is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CellState {
    /// How often it was written, deletions included.
    pub counter: u64,
    /// What it holds.
    pub value: Option<i64>,
}

impl CellState {
    fn next(&self, value: Option<i64>) -> CellState {
        CellState { counter: self.counter + 1, value }
    }

    fn is_at(&self, expected: Option<u64>) -> bool {
        self.value.map(|_| self.counter) == expected
    }

    fn delete(&self, holds: bool) -> (CellState, CellAnswered) {
        match holds {
            true => (self.next(None), CellAnswered::Did(true)),
            false => (self.clone(), CellAnswered::Did(false)),
        }
    }
}

impl Model for Cell {
    type Asked = CellAsked;
    type Answered = CellAnswered;
    type State = CellState;

    fn apply(state: &CellState, asked: &CellAsked) -> (CellState, CellAnswered) {
        let next = state.counter + 1;
        match asked {
            CellAsked::Get => (state.clone(), CellAnswered::Value(state.value)),
            CellAsked::Look => {
                let version = state.value.map(|value| (value, state.counter));
                (state.clone(), CellAnswered::Version(version))
            }
            CellAsked::Set(value) => (state.next(Some(*value)), CellAnswered::Counter(next)),
            CellAsked::Init(_) if state.value.is_some() => {
                (state.clone(), CellAnswered::Counter(state.counter))
            }
            CellAsked::Init(value) => (state.next(Some(*value)), CellAnswered::Counter(next)),
            CellAsked::Cas(expected, value) if state.is_at(*expected) => {
                (state.next(Some(*value)), CellAnswered::Maybe(Some(next)))
            }
            CellAsked::Cas(..) => (state.clone(), CellAnswered::Maybe(None)),
            CellAsked::Delete => state.delete(state.value.is_some()),
            CellAsked::DeleteIf(counter) => state.delete(state.is_at(Some(*counter))),
            CellAsked::Incr(by) => {
                let sum = state.value.unwrap_or(0).wrapping_add(*by);
                (state.next(Some(sum)), CellAnswered::Sum(sum, next))
            }
        }
    }
}

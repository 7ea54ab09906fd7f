//! A sequential model of a cell.

use super::Model;

/// A cell that holds integers.
pub struct Cell;

/// A request to a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum CellAsked {
    /// Returns the value.
    Get,
    /// Returns the value and the counter.
    Look,
    /// Sets the value.
    Set(i64),
    /// Sets the value if the cell is absent.
    Init(i64),
    /// Sets the value if the cell has this counter (`None`: if it is absent).
    Cas(Option<u64>, i64),
    /// Deletes the cell.
    Delete,
    /// Deletes the cell if it has this counter.
    DeleteIf(u64),
    /// Adds to the value.
    Incr(i64),
}

/// A response of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum CellAnswered {
    /// The value.
    Value(Option<i64>),
    /// The value and the counter.
    Version(Option<(i64, u64)>),
    /// The counter after a write.
    Counter(u64),
    /// The counter after a conditional write; `None` if the condition failed.
    Maybe(Option<u64>),
    /// Whether the cell was deleted.
    Did(bool),
    /// The value and the counter after an addition.
    Sum(i64, u64),
}

/// The state of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CellState {
    /// The number of writes, including deletions.
    pub counter: u64,
    /// The value; `None` if absent.
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
        if holds {
            (self.next(None), CellAnswered::Did(true))
        } else {
            (self.clone(), CellAnswered::Did(false))
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

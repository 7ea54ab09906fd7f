//! Batches of commands: one result per position, so an invalid command fails alone.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Answer, Code, Ttl};

/// Each command has its own result, in order.
pub fn answers_per_position(w: &mut TestDb) {
    let answers = w.cells().batch(vec![set("a", 1), incr("a", 2), get("a"), delete("b")]);
    assert_eq!(answers.len(), 4);
    assert_eq!(answers[0], Ok(Answer::Counter(1)));
    assert_eq!(answers[1], Ok(Answer::Number { value: 3.into(), counter: 2 }));
    let Ok(Answer::Cell(Some(seen))) = &answers[2] else { panic!("{:?}", answers[2]) };
    assert_eq!((&seen.value, seen.counter), (&3.into(), 2));
    assert_eq!(answers[3], Ok(Answer::Did(false)));
}

/// A failing command fails alone, and the others take effect.
pub fn invalid_item_fails_alone(w: &mut TestDb) {
    w.cells().set("text", "x").unwrap();
    let answers = w.cells().batch(vec![set("a", 1), incr("text", 1), set("b", 2)]);
    assert_eq!(answers[0], Ok(Answer::Counter(1)));
    refused(answers[1].clone(), Code::NotANumber);
    assert_eq!(answers[2], Ok(Answer::Counter(1)));
    assert_eq!(names(&w.cells(), ""), ["a", "b", "text"]);
}

/// A command with an invalid time to live fails alone.
pub fn invalid_ttl_fails_alone(w: &mut TestDb) {
    let answers = w.cells().batch(vec![set_with("a", 1, Ttl::Millis(0)), set("b", 2)]);
    refused(answers[0].clone(), Code::InvalidTtl);
    assert_eq!(answers[1], Ok(Answer::Counter(1)));
    assert_eq!(names(&w.cells(), ""), ["b"]);
}

/// A failed compare-and-swap is a normal answer, not an error.
pub fn lost_cas_is_an_answer(w: &mut TestDb) {
    let answers = w.cells().batch(vec![cas("a", Some(4), 1), cas("a", None, 2)]);
    assert_eq!(answers[0], Ok(Answer::MaybeCounter(None)));
    assert_eq!(answers[1], Ok(Answer::MaybeCounter(Some(1))));
}

/// An empty batch returns no answers and writes nothing.
pub fn empty_batch(w: &mut TestDb) {
    assert!(writes_nothing(w.db(), || w.cells().batch(vec![])).is_empty());
}

/// `get_many` returns one result per name, in order, and an invalid name fails alone.
pub fn get_many_answers_per_position(w: &mut TestDb) {
    w.cells().set("a", 1).unwrap();
    w.cells().set("b", 2).unwrap();
    let seen = w.cells().get_many(&["b", "absent", "", "a"]);
    assert_eq!(seen[0], Ok(int(2)));
    assert_eq!(seen[1], Ok(None));
    refused(seen[2].clone(), Code::InvalidName);
    assert_eq!(seen[3], Ok(int(1)));
}

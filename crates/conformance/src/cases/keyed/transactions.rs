//! Keyed state in one transaction with other kinds of state.

use super::{held, look, put, space, write};
use crate::TestDb;
use crate::assertions::*;
use crate::cases::runs::{append, note};
use mainstay::{
    Answer, Code, Guard, RequestId, StateAnswer, StateCommand, StateWrite, Transaction, Version,
    Wrote,
};

fn wrote(answer: &Answer) -> Vec<Wrote> {
    let Answer::State(answer) = answer else { panic!("{answer:?}") };
    let StateAnswer::Wrote(wrote) = answer.as_ref() else { panic!("{answer:?}") };
    wrote.clone()
}

/// Writes to cells, records, runs and keyed state in one transaction share one revision.
pub fn one_revision_for_all_kinds(w: &mut TestDb) {
    let transaction = Transaction::new()
        .step(set("c", 1))
        .step(write_record("k"))
        .step(append(note("r", 1)))
        .step(put("a", "1", 7));
    let receipt = writes_once(w.db(), || w.db().execute(transaction).unwrap());
    assert_eq!(wrote(&receipt.answers[3]), [Wrote::Applied]);
    assert_eq!(held(&space(w), "a").unwrap(), "1@7");
    assert_eq!(w.cells().get("c").unwrap(), int(1));
    holds(&w.records(), "k", &[("f", "1")]);
    assert_eq!(w.runs().fetch("r", 0, 9).unwrap().len(), 1);
}

fn write_record(key: &str) -> mainstay::RecordWrite {
    crate::assertions::write(key, &[("f", "1")])
}

/// An error in any step aborts all other steps, in any order.
pub fn all_or_nothing(w: &mut TestDb) {
    let of_two_kinds = write(vec![
        StateWrite::put("a", "1", 1),
        StateWrite::put("b", "1", mainstay::LogicalTime::new(1, 1)),
    ]);
    let good = || Transaction::new().step(set("c", 1)).step(append(note("r", 1)));
    let bad = good().step(put("a", "1", 1)).step(of_two_kinds.clone());
    refused_at(writes_nothing(w.db(), || w.db().execute(bad)), Code::InvalidVersion, 3);
    let bad = good().step(put("a", "1", 1)).must(cas("c", Some(9), 2));
    refused_at(writes_nothing(w.db(), || w.db().execute(bad)), Code::MustFailed, 3);
    assert!(w.cells().get("c").unwrap().is_none());
    assert!(space(w).info().unwrap().is_none());
    assert!(w.runs().get("r").unwrap().is_none());
    w.db().execute(good().attempt(of_two_kinds).step(put("a", "2", 1))).unwrap();
    assert_eq!(held(&space(w), "a").unwrap(), "2@1");
}

/// A stale put is a normal answer; under `must` it aborts the transaction.
pub fn stale_under_must_aborts(w: &mut TestDb) {
    space(w).put("a", "1", 5).unwrap();
    let stale =
        |version| write(vec![StateWrite::put("b", "1", 9), StateWrite::put("a", "2", version)]);
    let must = Transaction::new().step(set("c", 1)).must(stale(5));
    refused_at(writes_nothing(w.db(), || w.db().execute(must)), Code::MustFailed, 1);
    assert_eq!((held(&space(w), "b"), w.cells().get("c").unwrap()), (None, None));
    let receipt = w.db().execute(Transaction::new().step(set("c", 1)).step(stale(5))).unwrap();
    assert_eq!(wrote(&receipt.answers[1]), [Wrote::Applied, Wrote::Stale]);
    assert_eq!(
        (held(&space(w), "a").unwrap(), w.cells().get("c").unwrap()),
        ("1@5".into(), int(1))
    );
    w.db().execute(Transaction::new().must(stale(6)).attempt(put("x", "1", 1))).unwrap_err();
    let newer = Transaction::new().must(put("a", "2", 6));
    w.db().execute(newer).unwrap();
    assert_eq!(held(&space(w), "a").unwrap(), "2@6");
}

/// Writes without an effect take no revision and create no space.
pub fn nothing_makes_nothing(w: &mut TestDb) {
    let moved = StateWrite::Merge {
        key: b"a".to_vec(),
        value: Some(b"1".to_vec()),
        version: 3.into(),
        read: Some(2.into()),
        settles: Vec::new(),
    };
    assert_eq!(space(w).write(vec![moved]).unwrap(), [Wrote::Moved]);
    assert!(space(w).info().unwrap().is_none(), "nothing happened");
    assert_eq!(w.db().spaces("", None, 9).unwrap().names, Vec::<String>::new());
    space(w).put("a", "1", 5).unwrap();
    writes_nothing(w.db(), || {
        assert_eq!(space(w).put("a", "2", 5).unwrap(), Wrote::Stale);
        assert_eq!(space(w).put("a", "2", 4).unwrap(), Wrote::Stale);
    });
}

/// Steps see the effects of earlier steps.
pub fn steps_see_earlier_ones(w: &mut TestDb) {
    let transaction = Transaction::new()
        .step(put("a", "1", 5))
        .step(put("a", "2", 5))
        .step(put("a", "3", 6))
        .step(look(&["a"]));
    let answers = w.db().execute(transaction).unwrap().answers;
    assert_eq!(
        [0, 1, 2].map(|at: usize| wrote(&answers[at])[0]),
        [Wrote::Applied, Wrote::Stale, Wrote::Applied]
    );
    let Answer::State(seen) = &answers[3] else { panic!() };
    let StateAnswer::Kept(kept) = seen.as_ref() else { panic!() };
    assert_eq!(kept[0].as_ref().unwrap().version, 6.into());
}

/// Guards on a key's version: of a state, of a tombstone, of an absent key; and `otherwise`.
pub fn guard_on_a_version(w: &mut TestDb) {
    let guard = |is: Option<u64>| {
        let is = is.map(Version::from);
        Transaction::new().guard(Guard::StateVersion { space: name("s"), key: b"a".to_vec(), is })
    };
    w.db().execute(guard(None).step(put("a", "1", 5))).unwrap();
    refused(w.db().execute(guard(None).step(set("c", 1))), Code::GuardFailed);
    refused(w.db().execute(guard(Some(4)).step(set("c", 1))), Code::GuardFailed);
    w.db().execute(guard(Some(5)).step(set("c", 1))).unwrap();
    space(w).delete("a", 6).unwrap();
    w.db().execute(guard(Some(6)).step(set("c", 2))).unwrap();
    let either = guard(Some(5)).step(set("c", 3)).otherwise(vec![put("b", "no", 1).into()]);
    assert!(!w.db().execute(either).unwrap().held);
    assert_eq!(held(&space(w), "b").unwrap(), "no@1");
    space(w).clear().unwrap();
    w.db().execute(guard(None).step(set("c", 4))).unwrap();
}

/// A transaction with a request ID runs once, and its receipt is stored.
pub fn repeated_gives_the_same_receipt(w: &mut TestDb) {
    let transaction = Transaction::new()
        .step(put("a", "1", 5))
        .step(put("a", "2", 5))
        .step(look(&["a"]))
        .request(RequestId::new("once").unwrap());
    let first = w.db().execute(transaction.clone()).unwrap();
    let again = writes_nothing(w.db(), || w.db().execute(transaction).unwrap());
    assert!(again.repeated);
    assert_eq!(again.answers, first.answers);
    assert_eq!(
        wrote(&again.answers[0]),
        [Wrote::Applied],
        "the first answer, not that of a stale put"
    );
    let other = Transaction::new().step(put("a", "1", 6)).request(RequestId::new("once").unwrap());
    refused(w.db().execute(other), Code::RequestReused);
}

/// A space cannot be created and dropped in one transaction, because its generation is identified by its
/// revision.
pub fn made_in_the_same_transaction_is_refused(w: &mut TestDb) {
    let drop = || StateCommand::Drop { space: name("s") };
    let both = Transaction::new().step(put("a", "1", 1)).step(drop());
    refused(writes_nothing(w.db(), || w.db().execute(both)), Code::InvalidArgument);
    space(w).put("a", "1", 5).unwrap();
    // Dropping and recreating in one transaction is allowed, and the old contents are gone.
    w.db().execute(Transaction::new().step(drop()).step(put("b", "1", 1))).unwrap();
    assert_eq!((held(&space(w), "a"), held(&space(w), "b").unwrap()), (None, "1@1".into()));
    assert!(w.beside().reap().unwrap() > 0);
    assert_eq!((held(&space(w), "a"), held(&space(w), "b").unwrap()), (None, "1@1".into()));
}

/// States and the position they belong to commit together, and a repeated batch has no effect.
pub fn positions_stand_with_their_states(w: &mut TestDb) {
    let batch = || {
        vec![
            StateWrite::put("a", "1", 7),
            StateWrite::append("a", "7", "x"),
            StateWrite::advance("in", 8),
        ]
    };
    assert_eq!(space(w).write(batch()).unwrap(), [Wrote::Applied; 3]);
    assert_eq!(writes_nothing(w.db(), || space(w).write(batch()).unwrap()), [Wrote::Stale; 3]);
    let bad = vec![StateWrite::advance("in", 9), StateWrite::put("", "1", 8)];
    refused(space(w).write(bad), Code::InvalidName);
    assert_eq!(space(w).positions().unwrap(), [("in".to_owned(), 8)]);
}

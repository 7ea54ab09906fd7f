//! Conditional writes: conditions on the counter, on existence and on fields; fencing conditions.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, Condition, ErrorKind, FieldValue, RecordWrite, Transaction, Ttl};

fn fence(token: &str) -> Condition {
    Condition::Fence { field: field("token"), is: token.as_bytes().to_vec() }
}

/// A write with the current counter succeeds; with any other counter it writes nothing.
pub fn right_counter_writes(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    let write = |counter| write("k", &[("a", "2")]).when_counter(Some(counter));
    assert_eq!(w.records().write(write(1)).unwrap(), Some(2));
    for stale in [0, 1, 3] {
        let lost = writes_nothing(w.db(), || w.records().write(write(stale)).unwrap());
        assert_eq!(lost, None, "{stale}");
    }
}

/// A write or deletion has at most 1,024 conditions, in any order and with repetitions.
pub fn many_conditions(w: &mut TestDb) {
    let names: Vec<String> = (0..600).map(|number| format!("f{number}")).collect();
    let all = mainstay::Fields::of(names.iter().map(|name| (name, name))).unwrap();
    w.records().put("k", &all, None).unwrap();
    let is =
        |name: &String| Condition::Field { field: field(name), is: Some(name.as_bytes().to_vec()) };
    let mut when: Vec<Condition> = names.iter().rev().chain(&names[..424]).map(is).collect();
    let when_all =
        |when: &[Condition]| RecordWrite { when: when.to_vec(), ..write("k", &[("g", "1")]) };
    assert_eq!(w.records().write(when_all(&when)).unwrap(), Some(2));
    when[700] = Condition::Field { field: field("f0"), is: None };
    assert_eq!(w.records().write(when_all(&when)).unwrap(), None);
    when.push(Condition::Exists);
    let refusal = w.records().write(when_all(&when));
    assert!(refusal.as_ref().unwrap_err().to_string().contains("1025 conditions"));
    refused(refusal, Code::InvalidArgument);
    refused(w.records().delete_when("k", when), Code::InvalidArgument);
}

/// A condition that a field is absent holds on a record without the field and on a missing record.
pub fn absent_field_writes(w: &mut TestDb) {
    let claim = || write("k", &[("worker", "w")]).when_absent("worker").unwrap();
    assert_eq!(w.records().write(claim()).unwrap(), Some(1));
    assert_eq!(w.records().write(claim()).unwrap(), None);
    w.records().set_field("l", "a", "1").unwrap();
    let other = write("l", &[("worker", "w")]).when_absent("worker").unwrap();
    assert_eq!(w.records().write(other).unwrap(), Some(2));
}

/// A condition that the counter is absent holds only if the record is missing.
pub fn absent_counter_makes(w: &mut TestDb) {
    let make = || write("k", &[("a", "1")]).when_counter(None);
    assert_eq!(w.records().write(make()).unwrap(), Some(1));
    assert_eq!(w.records().write(make()).unwrap(), None);
    w.records().delete("k").unwrap();
    assert_eq!(w.records().write(make()).unwrap(), Some(3));
}

/// A counter from before a deletion never matches again.
pub fn stale_counter_loses_across_deletion(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    w.records().delete("k").unwrap();
    w.records().set_field("k", "a", "1").unwrap();
    let stale = write("k", &[("a", "2")]).when_counter(Some(1));
    assert_eq!(w.records().write(stale).unwrap(), None);
}

/// The counter of an expired record does not match, and a condition of absence holds.
pub fn counter_of_expired(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1")]), Some(Ttl::Millis(5))).unwrap();
    w.pass_ms(6);
    assert_eq!(w.records().write(write("k", &[("a", "2")]).when_counter(Some(1))).unwrap(), None);
    assert_eq!(w.records().write(write("k", &[("a", "2")]).when_counter(None)).unwrap(), Some(3));
}

/// `Exists` holds only if the record exists.
pub fn exists_updates(w: &mut TestDb) {
    let update = || write("k", &[("a", "2")]).when(Condition::Exists);
    assert_eq!(writes_nothing(w.db(), || w.records().write(update()).unwrap()), None);
    w.records().set_field("k", "b", "1").unwrap();
    assert_eq!(w.records().write(update()).unwrap(), Some(2));
}

/// All conditions must hold.
pub fn all_must_hold(w: &mut TestDb) {
    w.records().put("k", &fields(&[("a", "1"), ("b", "2")]), None).unwrap();
    let ask = |a: &str, b: &str, counter: u64| {
        let ask = write("k", &[("c", "3")]).when_field("a", a).unwrap();
        w.records().write(ask.when_field("b", b).unwrap().when_counter(Some(counter))).unwrap()
    };
    assert_eq!((ask("1", "x", 1), ask("x", "2", 1), ask("1", "2", 2)), (None, None, None));
    assert_eq!(ask("1", "2", 1), Some(2));
}

/// Conditions are evaluated on the state before the write.
pub fn conditions_see_the_state_before(w: &mut TestDb) {
    w.records().set_field("k", "a", "1").unwrap();
    let swap = write("k", &[("a", "2")]).when_field("a", "2").unwrap();
    assert_eq!(w.records().write(swap).unwrap(), None);
}

/// In a transaction, conditions see the effects of earlier steps.
pub fn conditions_see_earlier_steps(w: &mut TestDb) {
    let first = write("k", &[("a", "1")]);
    let second = write("k", &[("a", "2")]).when_field("a", "1").unwrap();
    w.db().execute(Transaction::new().step(first).must(second)).unwrap();
    holds(&w.records(), "k", &[("a", "2")]);
}

/// The holder of the fencing token can write repeatedly, because its writes keep the token.
pub fn fence_lets_the_holder_write(w: &mut TestDb) {
    w.records().put("k", &fields(&[("token", "7"), ("a", "1")]), None).unwrap();
    for n in ["2", "3"] {
        let step = write("k", &[("a", n)]).when(fence("7"));
        assert!(w.records().write(step).unwrap().is_some());
    }
    holds(&w.records(), "k", &[("a", "3"), ("token", "7")]);
}

/// A fence with another token fails with `Fenced` and writes nothing.
pub fn other_token_is_fenced(w: &mut TestDb) {
    w.records().put("k", &fields(&[("token", "8"), ("a", "1")]), None).unwrap();
    let error =
        writes_nothing(w.db(), || w.records().write(write("k", &[("a", "2")]).when(fence("7"))))
            .unwrap_err();
    assert_eq!((error.code(), error.kind()), (Code::Fenced, ErrorKind::Fenced));
    holds(&w.records(), "k", &[("a", "1"), ("token", "8")]);
}

/// A fence on a missing or expired record, or on one without a token, fails with `Fenced`, too.
pub fn gone_is_fenced(w: &mut TestDb) {
    let step = || w.records().write(write("k", &[("a", "2")]).when(fence("7")));
    refused(writes_nothing(w.db(), step), Code::Fenced);
    w.records().put("k", &fields(&[("token", "7")]), Some(Ttl::Millis(5))).unwrap();
    w.pass_ms(6);
    refused(writes_nothing(w.db(), step), Code::Fenced);
    w.records().put("k", &fields(&[("a", "1")]), None).unwrap();
    refused(writes_nothing(w.db(), step), Code::Fenced);
    w.records().delete("k").unwrap();
    refused(writes_nothing(w.db(), step), Code::Fenced);
}

/// A failed fence is reported even if other conditions fail, too.
pub fn fence_is_told_first(w: &mut TestDb) {
    w.records().put("k", &fields(&[("token", "8"), ("state", "done")]), None).unwrap();
    let step = write("k", &[("a", "2")]).when_field("state", "running").unwrap();
    refused(w.records().write(step.when(fence("7"))), Code::Fenced);
}

/// A deletion can have a fence.
pub fn delete_can_be_fenced(w: &mut TestDb) {
    w.records().set_field("k", "token", "8").unwrap();
    let delete = |token| w.records().delete_when("k", vec![fence(token)]);
    refused(writes_nothing(w.db(), || delete("7")), Code::Fenced);
    assert!(delete("8").unwrap());
    refused(delete("8"), Code::Fenced);
}

/// A failed fence aborts the transaction and reports its position.
pub fn fence_aborts_a_transaction(w: &mut TestDb) {
    w.records().set_field("k", "token", "8").unwrap();
    let step = write("k", &[("a", "1")]).when(fence("7"));
    let transaction = Transaction::new().step(set("c", 1)).step(step);
    refused_at(writes_nothing(w.db(), || w.db().execute(transaction)), Code::Fenced, 1);
    assert_eq!(w.cells().get("c").unwrap(), None);
}

/// A failed fence of an `attempt` step is that step's answer and does not abort.
pub fn fence_of_an_attempt_is_its_answer(w: &mut TestDb) {
    w.records().set_field("k", "token", "8").unwrap();
    let step = write("k", &[("a", "1")]).when(fence("7"));
    let receipt = w.db().execute(Transaction::new().attempt(step).step(set("c", 1))).unwrap();
    let mainstay::Answer::Failed(error) = &receipt.answers[0] else {
        panic!("{:?}", receipt.answers)
    };
    assert_eq!(error.code(), Code::Fenced);
    assert_eq!(w.cells().get("c").unwrap(), int(1));
}

/// A failed condition of a `must` step aborts the transaction.
pub fn must_aborts(w: &mut TestDb) {
    let lost = write("k", &[("a", "1")]).when(Condition::Exists);
    let transaction = Transaction::new().step(set("c", 1)).must(lost);
    refused_at(writes_nothing(w.db(), || w.db().execute(transaction)), Code::MustFailed, 1);
}

/// A revision used as a fencing token rises with each grant: the old holder is fenced, the new one is
/// not.
pub fn tokens_only_rise(w: &mut TestDb) {
    let grant = || {
        let take = RecordWrite::to("lock").unwrap().set("token", FieldValue::Revision).unwrap();
        w.records().write(take).unwrap();
        String::from_utf8(w.records().get_field("lock", "token").unwrap().unwrap()).unwrap()
    };
    let first = grant();
    let second = grant();
    assert!(first.parse::<u64>().unwrap() < second.parse::<u64>().unwrap());
    refused(w.records().write(write("lock", &[("a", "1")]).when(fence(&first))), Code::Fenced);
    assert!(w.records().write(write("lock", &[("a", "1")]).when(fence(&second))).is_ok());
}

//! Handwritten histories: the checker rejects each bad one and accepts each unusual but valid one.

use super::super::call::Call;
use super::{Cell, CellAnswered as A, CellAsked as Q, Model, check};
use super::{FIELDS, Put, Record, RecordAnswered as RA, RecordAsked as RQ, When, Write};

fn call<Q, R>(invoked: u64, returned: u64, asked: Q, answered: R) -> Call<Q, R> {
    Call { thread: invoked % 3, invoked, asked, answer: Some((returned, answered)) }
}

fn lost<Q, R>(invoked: u64, asked: Q) -> Call<Q, R> {
    Call { thread: 9, invoked, asked, answer: None }
}

#[track_caller]
fn fine<M: Model>(calls: &[Call<M::Asked, M::Answered>]) {
    check::<M>(calls).unwrap();
}

#[track_caller]
fn wrong<M: Model>(calls: &[Call<M::Asked, M::Answered>]) -> String {
    check::<M>(calls).unwrap_err()
}

#[test]
fn one_after_the_other_is_fine() {
    fine::<Cell>(&[
        call(0, 1, Q::Get, A::Value(None)),
        call(2, 3, Q::Set(7), A::Counter(1)),
        call(4, 5, Q::Cas(Some(1), 8), A::Maybe(Some(2))),
        call(6, 7, Q::Cas(Some(1), 9), A::Maybe(None)),
        call(8, 9, Q::Incr(2), A::Sum(10, 3)),
        call(10, 11, Q::Delete, A::Did(true)),
        call(12, 13, Q::Delete, A::Did(false)),
        call(14, 15, Q::Init(5), A::Counter(5)),
        call(16, 17, Q::Look, A::Version(Some((5, 5)))),
    ]);
}

#[test]
fn a_stale_read_is_found() {
    let said = wrong::<Cell>(&[
        call(0, 1, Q::Set(1), A::Counter(1)),
        call(2, 3, Q::Set(2), A::Counter(2)),
        call(4, 5, Q::Get, A::Value(Some(1))),
        call(6, 7, Q::Get, A::Value(Some(2))),
    ]);
    assert!(said.contains("up to moment 5"), "the culprit is the read at 5: {said}");
    assert!(said.contains("4..5 thread 1: Get -> Value(Some(1))"), "{said}");
    assert!(!said.contains("6..7"), "what came later is not shown: {said}");
}

#[test]
fn reads_that_go_back_are_found() {
    wrong::<Cell>(&[
        call(0, 1, Q::Set(1), A::Counter(1)),
        call(2, 9, Q::Set(2), A::Counter(2)),
        call(3, 4, Q::Get, A::Value(Some(2))),
        call(5, 6, Q::Get, A::Value(Some(1))),
    ]);
}

#[test]
fn concurrent_reads_in_either_order_are_fine() {
    for (first, second) in [(1, 2), (2, 1), (1, 1), (2, 2)] {
        fine::<Cell>(&[
            call(0, 1, Q::Set(1), A::Counter(1)),
            call(2, 9, Q::Set(2), A::Counter(2)),
            call(3, 7, Q::Get, A::Value(Some(first))),
            call(4, 8, Q::Get, A::Value(Some(second))),
        ]);
    }
}

#[test]
fn a_lost_update_is_found() {
    wrong::<Cell>(&[
        call(0, 1, Q::Set(1), A::Counter(1)),
        call(2, 5, Q::Set(2), A::Counter(2)),
        call(3, 6, Q::Set(3), A::Counter(2)),
    ]);
    // Acknowledged, but lost.
    wrong::<Cell>(&[
        call(0, 1, Q::Set(1), A::Counter(1)),
        call(2, 3, Q::Set(2), A::Counter(2)),
        call(4, 5, Q::Look, A::Version(Some((1, 1)))),
    ]);
}

#[test]
fn a_read_of_the_future_is_found() {
    wrong::<Cell>(&[call(0, 1, Q::Get, A::Value(Some(1))), call(2, 3, Q::Set(1), A::Counter(1))]);
}

#[test]
fn a_read_of_what_nobody_wrote_is_found() {
    wrong::<Cell>(&[call(0, 3, Q::Set(1), A::Counter(1)), call(1, 2, Q::Get, A::Value(Some(8)))]);
}

#[test]
fn an_incr_answered_twice_with_one_counter_is_found() {
    wrong::<Cell>(&[call(0, 3, Q::Incr(1), A::Sum(1, 1)), call(1, 4, Q::Incr(1), A::Sum(1, 1))]);
    fine::<Cell>(&[call(0, 3, Q::Incr(1), A::Sum(2, 2)), call(1, 4, Q::Incr(1), A::Sum(1, 1))]);
}

#[test]
fn a_cas_won_by_two_is_found() {
    let by = |invoked, value| call(invoked, invoked + 5, Q::Cas(Some(1), value), A::Maybe(Some(2)));
    let set = call(0, 1, Q::Set(1), A::Counter(1));
    wrong::<Cell>(&[set.clone(), by(2, 5), by(3, 6)]);
    let absent = |invoked, won| call(invoked, invoked + 5, Q::Cas(None, 4), A::Maybe(won));
    wrong::<Cell>(&[absent(0, Some(1)), absent(1, Some(1))]);
    fine::<Cell>(&[absent(0, None), absent(1, Some(1))]);
    // A lost update without a winner: the cell was absent all the time.
    wrong::<Cell>(&[absent(0, None), absent(1, None)]);
}

#[test]
fn a_deletion_that_lowers_the_counter_is_found() {
    wrong::<Cell>(&[
        call(0, 1, Q::Set(1), A::Counter(1)),
        call(2, 3, Q::Delete, A::Did(true)),
        call(4, 5, Q::Set(2), A::Counter(2)),
    ]);
    wrong::<Cell>(&[
        call(0, 1, Q::Set(1), A::Counter(1)),
        call(2, 6, Q::Delete, A::Did(true)),
        call(3, 7, Q::Delete, A::Did(true)),
    ]);
}

#[test]
fn what_is_not_known_may_happen_late_or_never() {
    let set = call(0, 1, Q::Set(1), A::Counter(1));
    let early = call(4, 5, Q::Get, A::Value(Some(1)));
    let late = call(20, 21, Q::Look, A::Version(Some((2, 2))));
    let never = call(20, 21, Q::Set(3), A::Counter(2));
    fine::<Cell>(&[set.clone(), lost(2, Q::Set(2)), early.clone(), late.clone()]);
    fine::<Cell>(&[set.clone(), lost(2, Q::Set(2)), early.clone(), never.clone()]);
    // Not before it was requested, and not twice.
    wrong::<Cell>(&[set.clone(), lost(6, Q::Set(2)), call(2, 5, Q::Get, A::Value(Some(2)))]);
    let back = call(30, 31, Q::Set(4), A::Counter(3));
    let again = call(40, 41, Q::Look, A::Version(Some((2, 4))));
    wrong::<Cell>(&[set, lost(2, Q::Set(2)), early, late, back, again]);
}

#[test]
fn what_came_of_a_call_without_an_answer_stays() {
    // The write was seen, so it happened, and cannot be undone.
    wrong::<Cell>(&[
        call(0, 1, Q::Set(1), A::Counter(1)),
        lost(2, Q::Set(2)),
        call(3, 4, Q::Get, A::Value(Some(2))),
        call(5, 6, Q::Get, A::Value(Some(1))),
    ]);
}

#[test]
fn many_calls_without_an_answer_do_not_hold_it_up() {
    let mut calls = vec![call(0, 1, Q::Set(1), A::Counter(1))];
    calls.extend((2..10).map(|n| lost(n, Q::Set(n as i64))));
    calls.extend(
        (0..200).map(|n| call(100 + 2 * n, 101 + 2 * n, Q::Look, A::Version(Some((1, 1))))),
    );
    fine::<Cell>(&calls);
    calls.push(call(1_000, 1_001, Q::Look, A::Version(Some((7, 3)))));
    fine::<Cell>(&calls);
    calls.push(call(1_002, 1_003, Q::Look, A::Version(Some((99, 4)))));
    wrong::<Cell>(&calls);
}

#[test]
fn long_histories_of_a_hot_key_are_checked() {
    // Eight concurrent calls at a time, answered in the opposite order.
    let incr = |n: u64| {
        let group = n / 8;
        let place = 7 - n % 8;
        let counter = group * 8 + place + 1;
        let invoked = n * 2 + group * 20;
        let returned = group * 36 + 30;
        call(invoked, returned, Q::Incr(1), A::Sum(counter as i64, counter))
    };
    let mut calls: Vec<_> = (0..20_000).map(incr).collect();
    fine::<Cell>(&calls);
    calls[19_000].answer = Some((calls[19_000].returned(), A::Sum(4, 4)));
    wrong::<Cell>(&calls);
}

fn write(when: When, set: Vec<(usize, Put)>, clear: Vec<usize>) -> RQ {
    RQ::Write(Write { when, replace: false, set, clear })
}

fn fields(pairs: &[(usize, i64)]) -> [Option<i64>; FIELDS] {
    let mut fields = [None; FIELDS];
    pairs.iter().for_each(|(field, value)| fields[*field] = Some(*value));
    fields
}

#[test]
fn a_record_does_as_it_is_told() {
    let expect_absent = When::Field(0, None);
    fine::<Record>(&[
        call(0, 1, RQ::Get, RA::Record(None)),
        call(2, 3, write(When::Exists, vec![(0, Put::Value(1))], vec![]), RA::Maybe(None)),
        call(4, 5, write(expect_absent, vec![(0, Put::Value(1))], vec![]), RA::Maybe(Some(1))),
        call(6, 7, write(When::Always, vec![(1, Put::Copy(0))], vec![]), RA::Maybe(Some(2))),
        call(8, 9, write(When::Always, vec![(1, Put::Sum(4))], vec![]), RA::Maybe(Some(3))),
        call(10, 11, RQ::Get, RA::Record(Some((fields(&[(0, 1), (1, 5)]), 3)))),
        call(12, 13, RQ::HashSet(vec![(1, 2), (2, 2), (2, 3)]), RA::Count(1)),
        call(14, 15, RQ::HashDelete(vec![0, 3]), RA::Count(1)),
        call(16, 17, RQ::HashInit(2, 9), RA::Did(false)),
        call(18, 19, RQ::HashAdd(2, 4), RA::Sum(7)),
        call(20, 21, RQ::Count, RA::Count(2)),
        call(22, 23, write(When::Counter(Some(6)), vec![], vec![1, 2]), RA::Maybe(Some(7))),
        call(24, 25, RQ::Get, RA::Record(None)),
        call(26, 27, write(When::Always, vec![], vec![1]), RA::Maybe(None)),
        call(28, 29, RQ::HashInit(2, 9), RA::Did(true)),
        call(30, 31, RQ::Delete(When::Counter(Some(8))), RA::Did(true)),
        call(32, 33, RQ::HashDelete(vec![2]), RA::Count(0)),
    ]);
}

#[test]
fn half_a_write_to_a_record_is_found() {
    let both = write(When::Always, vec![(0, Put::Value(1)), (1, Put::Value(1))], vec![]);
    let half = RA::Record(Some((fields(&[(0, 1)]), 1)));
    wrong::<Record>(&[call(0, 9, both.clone(), RA::Maybe(Some(1))), call(1, 2, RQ::Get, half)]);
    fine::<Record>(&[
        call(0, 9, both, RA::Maybe(Some(1))),
        call(1, 2, RQ::Field(1), RA::Value(None)),
        call(3, 4, RQ::Field(0), RA::Value(Some(1))),
    ]);
}

#[test]
fn a_field_swapped_by_two_is_found() {
    let swap = |n: u64| {
        let asked = write(When::Field(0, Some(1)), vec![(0, Put::Value(n as i64))], vec![]);
        call(n, n + 5, asked, RA::Maybe(Some(n)))
    };
    let first = call(0, 1, RQ::HashSet(vec![(0, 1)]), RA::Count(1));
    wrong::<Record>(&[first.clone(), swap(2), swap(3)]);
    fine::<Record>(&[first, swap(2)]);
}

#[test]
fn a_sum_lost_in_a_record_is_found() {
    wrong::<Record>(&[
        call(0, 3, RQ::HashAdd(0, 1), RA::Sum(1)),
        call(1, 4, RQ::HashAdd(0, 1), RA::Sum(1)),
    ]);
}

#[test]
fn calls_beside_each_other_are_counted() {
    let get = |invoked, returned| call(invoked, returned, Q::Get, A::Value(None));
    assert_eq!(check::<Cell>(&[get(0, 1), get(2, 3)]), Ok(0));
    assert_eq!(check::<Cell>(&[get(0, 5), get(2, 3), get(4, 7), get(8, 9)]), Ok(3));
}

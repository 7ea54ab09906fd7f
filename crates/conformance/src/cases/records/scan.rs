//! `scan` and `count`: key order, one snapshot, a cursor, filters evaluated before the limit.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, Condition, Field, RecordCommand, RecordPick, Test, Transaction, Where};

fn filled(w: &TestDb, records: &[(&str, &str)]) {
    let put = |(key, value): &(&str, &str)| w.records().set_field(key, "f", value).unwrap();
    records.iter().for_each(|one| done(put(one)));
}

/// Records are sorted by key bytes and returned with fields and counters.
pub fn goes_in_key_order(w: &mut TestDb) {
    filled(w, &[("b", "1"), ("a/2", "1"), ("é", "1"), ("a", "1"), ("a/10", "1"), ("a", "2")]);
    let page = w.records().scan("", &[], None, 9).unwrap();
    assert_eq!(keys_of(&page), ["a", "a/10", "a/2", "b", "é"]);
    assert_eq!((page.records[0].1.fields.text("f"), page.records[0].1.counter), (Some("2"), 2));
    assert_eq!(page.next, None);
}

/// Only keys with the prefix are returned.
pub fn keeps_to_the_prefix(w: &mut TestDb) {
    filled(w, &[("a", "1"), ("a/1", "1"), ("a/2", "1"), ("ab", "1"), ("b", "1")]);
    assert_eq!(found(&w.records(), "a/", &[]), ["a/1", "a/2"]);
    assert_eq!(found(&w.records(), "a", &[]), ["a", "a/1", "a/2", "ab"]);
    assert_eq!(found(&w.records(), "x", &[]), [] as [&str; 0]);
}

/// Cells are not part of a scan.
pub fn cells_are_not_in_it(w: &mut TestDb) {
    filled(w, &[("a", "1")]);
    w.cells().set("b", 1).unwrap();
    assert_eq!(found(&w.records(), "", &[]), ["a"]);
    assert_eq!(names(&w.cells(), ""), ["b"]);
}

/// Following the cursor returns each record exactly once.
pub fn cursor_gives_everything_once(w: &mut TestDb) {
    let keys: Vec<String> = (0..25).map(|n| format!("k{n:02}")).collect();
    keys.iter().for_each(|key| done(w.records().set_field(key, "f", "1").unwrap()));
    for limit in [1, 4, 5, 25, 26] {
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let page = w.records().scan("k", &[], after.as_deref(), limit).unwrap();
            seen.extend(page.records.into_iter().map(|(key, _)| key));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, keys, "{limit}");
    }
}

/// `after` is exclusive and need not exist.
pub fn after_is_exclusive(w: &mut TestDb) {
    filled(w, &[("a", "1"), ("b", "1"), ("c", "1")]);
    let behind = |prefix: &str, after: &str| {
        let page = w.records().scan(prefix, &[], Some(after), 9).unwrap();
        keys_of(&page).join(" ")
    };
    assert_eq!(behind("", "a"), "b c");
    assert_eq!(behind("", "ab"), "b c");
    assert_eq!((behind("b", "b"), behind("", "z")), (String::new(), String::new()));
}

/// Filters are evaluated before the limit, so pages are full.
pub fn filters_come_before_the_limit(w: &mut TestDb) {
    for n in 0..40 {
        let state = if n % 10 == 9 { "stuck" } else { "done" };
        w.records().set_field(&format!("k{n:02}"), "state", state).unwrap();
    }
    let stuck = [filter("state", Test::Eq, "stuck")];
    let page = w.records().scan("k", &stuck, None, 3).unwrap();
    assert_eq!((keys_of(&page), page.next.as_deref()), (vec!["k09", "k19", "k29"], Some("k29")));
    let rest = w.records().scan("k", &stuck, Some("k29"), 3).unwrap();
    assert_eq!((keys_of(&rest), rest.next.as_deref()), (vec!["k39"], None));
}

/// A page that ends with the last match has no cursor.
pub fn no_cursor_behind_the_last_match(w: &mut TestDb) {
    filled(w, &[("a", "x"), ("b", "x"), ("c", "y")]);
    let page = w.records().scan("", &[filter("f", Test::Eq, "x")], None, 2).unwrap();
    assert_eq!((keys_of(&page), page.next.as_deref()), (vec!["a", "b"], None));
}

/// `Eq` and `Ne` compare bytes.
pub fn equality_is_of_bytes(w: &mut TestDb) {
    filled(w, &[("a", "1"), ("b", "1.0"), ("c", "x"), ("d", "")]);
    let found = |test, bound| found(&w.records(), "", &[filter("f", test, bound)]);
    assert_eq!(found(Test::Eq, "1"), ["a"]);
    assert_eq!(found(Test::Ne, "1"), ["b", "c", "d"]);
    assert_eq!(found(Test::Eq, ""), ["d"]);
    assert_eq!(found(Test::Eq, "X"), [] as [&str; 0]);
}

/// `In` matches any of several byte strings; an empty list matches nothing.
pub fn one_of_several(w: &mut TestDb) {
    filled(w, &[("a", "1"), ("b", "2"), ("c", "1.0"), ("d", "x")]);
    let within = |all: &[&str]| {
        let test = Test::In(all.iter().map(|text| text.as_bytes().to_vec()).collect());
        found(&w.records(), "", &[Where { field: field("f"), test }])
    };
    assert_eq!(within(&["1", "x", "other"]), ["a", "d"]);
    assert_eq!(within(&[]), [] as [&str; 0]);
}

/// Range filters compare decimals by value, not by bytes.
pub fn numbers_order_numerically(w: &mut TestDb) {
    let numbers = [
        ("a", "-20"),
        ("b", "-3"),
        ("c", "-0.5"),
        ("d", "0"),
        ("e", "1.5"),
        ("f", "9"),
        ("g", "10"),
        ("h", "100.25"),
        ("i", "12345678901234567890123"),
    ];
    filled(w, &numbers);
    for (at, (key, bound)) in numbers.iter().enumerate() {
        let count = |test| found(&w.records(), "", &[filter("f", test, bound)]).len();
        assert_eq!(count(Test::Lt), at, "before {key}");
        assert_eq!(count(Test::Le), at + 1, "up to {key}");
        assert_eq!(count(Test::Gt), numbers.len() - at - 1, "behind {key}");
        assert_eq!(count(Test::Ge), numbers.len() - at, "from {key}");
    }
    let same =
        found(&w.records(), "", &[filter("f", Test::Ge, "0010.0"), filter("f", Test::Le, "10")]);
    assert_eq!(same, ["g"], "numbers that say the same are the same");
}

/// Values that are no decimals are ordered by bytes.
pub fn others_order_by_bytes(w: &mut TestDb) {
    filled(w, &[("a", ""), ("b", "1e3"), ("c", "Z"), ("d", "a"), ("e", "ab"), ("f", "é")]);
    let found = |test, bound| found(&w.records(), "", &[filter("f", test, bound)]);
    assert_eq!(found(Test::Lt, "a"), ["a", "b", "c"]);
    assert_eq!(found(Test::Le, "a"), ["a", "b", "c", "d"]);
    assert_eq!(found(Test::Gt, "a"), ["e", "f"]);
    assert_eq!(found(Test::Ge, "ab"), ["e", "f"]);
}

/// A range filter matches only values of the same class as its bound, decimal or not.
pub fn ranges_keep_to_the_class_of_their_bound(w: &mut TestDb) {
    filled(w, &[("a", "5"), ("b", "50"), ("c", "x"), ("d", ""), ("e", "5 "), ("f", "+5")]);
    let found = |test, bound| found(&w.records(), "", &[filter("f", test, bound)]);
    assert_eq!(found(Test::Ge, "0"), ["a", "b"]);
    assert_eq!(found(Test::Lt, "1000"), ["a", "b"]);
    assert_eq!(found(Test::Ge, "!"), ["c", "e", "f"]);
    assert_eq!(found(Test::Lt, "~"), ["c", "d", "e", "f"]);
}

/// A record without the field never matches a filter on it.
pub fn without_the_field_nothing_matches(w: &mut TestDb) {
    w.records().set_field("k", "other", "1").unwrap();
    for test in [Test::Eq, Test::Ne, Test::Lt, Test::Le, Test::Gt, Test::Ge] {
        for bound in ["", "1", "x"] {
            assert_eq!(found(&w.records(), "", &[filter("f", test, bound)]), [] as [&str; 0]);
        }
    }
}

/// All filters must match, on one field or on several.
pub fn filters_are_anded(w: &mut TestDb) {
    for n in 0..10 {
        let pairs = [("n", n.to_string()), ("odd", (n % 2).to_string())];
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(a, b)| (*a, b.as_str())).collect();
        w.records().put(&format!("k{n}"), &fields(&pairs), None).unwrap();
    }
    let between =
        [filter("n", Test::Gt, "2"), filter("n", Test::Le, "8"), filter("odd", Test::Eq, "1")];
    assert_eq!(found(&w.records(), "k", &between), ["k3", "k5", "k7"]);
    assert_eq!(w.records().count("k", &between).unwrap(), 3);
}

/// Scans reflect every write immediately.
pub fn follows_every_write(w: &mut TestDb) {
    let pending = [filter("state", Test::Eq, "pending")];
    let count = || w.records().count("", &pending).unwrap();
    w.records().put("k", &fields(&[("state", "pending"), ("a", "1")]), None).unwrap();
    assert_eq!(count(), 1);
    w.records().compare_and_swap("k", "state", "pending", "done").unwrap();
    assert_eq!(count(), 0);
    w.records().set_field("k", "state", "pending").unwrap();
    assert_eq!(count(), 1);
    w.records().clear_field("k", "state").unwrap();
    assert_eq!(count(), 0);
    w.records().set_field("k", "state", "pending").unwrap();
    w.records().replace("k", &fields(&[("a", "1")]), None).unwrap();
    assert_eq!(count(), 0);
    w.records().set_field("k", "state", "pending").unwrap();
    w.records().delete_when("k", vec![Condition::Exists]).unwrap();
    assert_eq!(count(), 0);
}

/// Inside a transaction, a scan sees the effects of earlier steps.
pub fn sees_earlier_steps(w: &mut TestDb) {
    filled(w, &[("a", "x"), ("b", "x"), ("c", "y")]);
    let transaction = Transaction::new()
        .step(write("c", &[("f", "x")]))
        .step(delete_record("a"))
        .step(scan("", vec![filter("f", Test::Eq, "x")]))
        .step(count("", vec![]));
    let receipt = w.db().execute(transaction).unwrap();
    let mainstay::Answer::Records(page) = &receipt.answers[2] else {
        panic!("{:?}", receipt.answers)
    };
    assert_eq!(keys_of(page), ["b", "c"]);
    assert_eq!(receipt.answers[3], mainstay::Answer::Count(2));
}

/// Scans and counts write nothing.
pub fn looking_writes_nothing(w: &mut TestDb) {
    filled(w, &[("a", "x")]);
    writes_nothing(w.db(), || {
        found(&w.records(), "", &[]);
        w.records().count("", &[]).unwrap();
        run(w.db(), scan("", vec![])).unwrap();
    });
}

/// `count` returns the number of records that a scan would return in total.
pub fn count_agrees_with_scan(w: &mut TestDb) {
    assert_eq!(w.records().count("", &[]).unwrap(), 0);
    filled(w, &[("a", "1"), ("b", "2"), ("ba", "30"), ("c", "x")]);
    assert_eq!(w.records().count("", &[]).unwrap(), 4);
    assert_eq!(w.records().count("b", &[]).unwrap(), 2);
    assert_eq!(w.records().count("", &[filter("f", Test::Gt, "1")]).unwrap(), 2);
    assert_eq!(w.records().count("x", &[]).unwrap(), 0);
}

/// Page limits, numbers of filters and numbers of `In` values are checked.
pub fn limits_are_checked(w: &mut TestDb) {
    for limit in [0, 100_001] {
        refused(w.records().scan("", &[], None, limit), Code::InvalidLimit);
    }
    assert!(w.records().scan("", &[], None, 100_000).is_ok());
    let filters = |count| vec![filter("f", Test::Eq, "1"); count];
    assert!(w.records().scan("", &filters(64), None, 1).is_ok());
    refused(w.records().scan("", &filters(65), None, 1), Code::InvalidArgument);
    refused(w.records().count("", &filters(65)), Code::InvalidArgument);
    let one_of = |count| [Where { field: field("f"), test: Test::In(vec![b"1".to_vec(); count]) }];
    assert!(w.records().scan("", &one_of(1_024), None, 1).is_ok());
    let many = w.records().scan("", &one_of(1_025), None, 1);
    assert!(many.as_ref().unwrap_err().to_string().contains("`IN` with 1025 values"));
    refused(many, Code::InvalidArgument);
    let pick = RecordPick::under("", one_of(1_025).to_vec()).set("f", "1").unwrap();
    refused(w.records().pick(pick), Code::InvalidArgument);
    let prefix = String::new();
    let scan = RecordCommand::Scan { prefix, filters: vec![], after: None, limit: 0 };
    refused_at(
        w.db().execute(Transaction::new().step(set("c", 1)).step(scan)),
        Code::InvalidLimit,
        1,
    );
    assert!(Field::new(vec![b'f'; 1025]).is_err());
}

/// A cursor outside the prefix is refused, also in a command. A cursor inside it may name a missing key.
pub fn cursor_of_another_scan_is_refused(w: &mut TestDb) {
    filled(w, &[("a/1", "1"), ("a/2", "1"), ("b", "1")]);
    for other in ["b", "a", "A", ""] {
        refused(w.records().scan("a/", &[], Some(other), 10), Code::InvalidArgument);
        let prefix = "a/".to_owned();
        let after = Some(other.to_owned());
        let scan = RecordCommand::Scan { prefix, filters: vec![], after, limit: 10 };
        refused(run(w.db(), scan.clone()), Code::InvalidArgument);
        refused(w.db().begin().unwrap().run(scan), Code::InvalidArgument);
    }
    let after = |cursor| w.records().scan("a/", &[], Some(cursor), 10).unwrap();
    assert_eq!(keys_of(&after("a/")), ["a/1", "a/2"]);
    assert_eq!(keys_of(&after("a/1x")), ["a/2"]);
}

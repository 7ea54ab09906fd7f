//! Values computed by the store: revisions, the current time, sums.

use super::TestRecords;
use crate::assertions::{fields, write};
use mainstay_model::{Code, FieldValue, RecordWrite};

fn number(s: &TestRecords<'_>, field: &str) -> i64 {
    let text = s.ok(s.get_field("k", field)).expect("the field is there");
    String::from_utf8(text).unwrap().parse().expect("decimal text")
}

/// `Revision` values only rise, even across deletions, and are stored as decimal text.
/// Requires: Revisions.
pub fn revisions_only_rise(s: &TestRecords<'_>) {
    let mut last = 0;
    for round in 0..6 {
        s.ok(s.set_field("k", "token", FieldValue::Revision));
        let token = number(s, "token");
        assert!(token > last, "{token} behind {last}");
        last = token;
        if round % 2 == 1 {
            s.ok(s.delete("k"));
        }
    }
}

/// `Millis` is the store's time in milliseconds, the same for the whole write.
/// Requires: Times.
pub fn time_is_the_stores_own(s: &TestRecords<'_>) {
    let now = RecordWrite::to("k").unwrap().set("now", FieldValue::Millis { plus: 0 }).unwrap();
    let both = now.set("then", FieldValue::Millis { plus: 5_000 }).unwrap();
    let both = both.set("past", FieldValue::Millis { plus: -5_000 }).unwrap();
    s.ok(s.write(both.clone()));
    let now = number(s, "now");
    let then = number(s, "then");
    let past = number(s, "past");
    assert_eq!((then - now, now - past), (5_000, 5_000));
    let stamp_ms = s.ok(s.get("k")).unwrap().stamp / 1_000;
    assert_eq!(now, stamp_ms as i64, "it is when the record was written");
    s.pass_ms(50);
    s.ok(s.write(both));
    assert!(number(s, "now") >= now + 50);
}

/// `Sum` adds to the field; a missing field counts as 0.
/// Requires: Sums.
pub fn sum_adds(s: &TestRecords<'_>) {
    for (by, sum) in [(5, "5"), (-7, "-2"), (i64::MAX, "9223372036854775805")] {
        s.ok(s.set_field("k", "n", FieldValue::Sum { by }));
        s.holds("k", &[("n", sum)]);
    }
    s.ok(s.replace("k", &fields(&[("n", "1")]), None));
    let anew = RecordWrite::to("k").unwrap().set("n", FieldValue::Sum { by: 1 }).unwrap().replace();
    s.ok(s.write(anew));
    s.holds("k", &[("n", "2")]);
}

/// A sum on a field that is no canonical integer aborts the whole write.
/// Requires: Sums.
pub fn sum_of_no_number_is_refused(s: &TestRecords<'_>) {
    for text in ["x", "", "1.0", "01", " 1", "+1", "9223372036854775808"] {
        s.ok(s.put("k", &fields(&[("n", text)]), None));
        let sum = write("k", &[("a", "1")]).set("n", FieldValue::Sum { by: 1 }).unwrap();
        s.refused(s.write(sum), Code::NotANumber);
        s.holds("k", &[("n", text)]);
    }
}

/// An overflowing sum is refused.
/// Requires: Sums.
pub fn sum_overflow_is_refused(s: &TestRecords<'_>) {
    s.ok(s.put("k", &fields(&[("n", "9223372036854775807")]), None));
    s.refused(s.set_field("k", "n", FieldValue::Sum { by: 1 }), Code::Overflow);
    s.holds("k", &[("n", "9223372036854775807")]);
}

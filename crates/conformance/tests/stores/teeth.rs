//! Mutation tests of the suite: each faulty store must fail the cases that cover its fault.

use super::bent::{Before, Bend, Scan};
use mainstay_conformance::StoreWorld;
use mainstay_conformance::store_cases::ALL;
use mainstay_model::{
    Answering, Capabilities, Code, Condition, ErrorKind, Field, Name, Record, RecordPage,
    RecordStore, RecordWrite, Result, Ttl,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Asserts that each case fails on the faulty store. Other tests check that the cases pass on the
/// correct store.
#[track_caller]
fn bites(bend: fn() -> Before, cases: &[&str]) {
    for name in cases {
        let case = ALL.iter().find(|case| case.name == *name).expect("there is such a case");
        let world = bend();
        assert_eq!(case.excuse(&world), None, "{name}");
        let passed = catch_unwind(AssertUnwindSafe(|| case.run(&world as &dyn StoreWorld)));
        assert!(passed.is_err(), "{name} did not notice");
    }
}

struct DropsConditions;

impl Bend for DropsConditions {
    fn write<'a>(
        &'a self,
        inner: &'a dyn RecordStore,
        mut write: RecordWrite,
    ) -> Answering<'a, Option<u64>> {
        write.when.clear();
        inner.write(write)
    }

    fn delete<'a>(
        &'a self,
        inner: &'a dyn RecordStore,
        key: &'a str,
        _: Vec<Condition>,
    ) -> Answering<'a, bool> {
        inner.delete(key)
    }
}

#[test]
fn conditions_that_are_dropped() {
    let cases = [
        "swap::other_bytes_lose",
        "swap::missing_loses",
        "swap::delete_on_a_field",
        "conditions::stale_counter_loses",
        "conditions::existence_is_a_condition",
        "fences::other_token_is_fenced",
        "races::one_swap_wins",
        "programs::of_every_write",
    ];
    bites(|| Before::bent(DropsConditions), &cases);
}

struct IgnoresTimes;

impl Bend for IgnoresTimes {
    fn write<'a>(
        &'a self,
        inner: &'a dyn RecordStore,
        write: RecordWrite,
    ) -> Answering<'a, Option<u64>> {
        inner.write(write.ttl(Ttl::Keep))
    }
}

#[test]
fn times_to_live_that_are_ignored() {
    let cases = [
        "expiry::expired_is_invisible_everywhere",
        "expiry::exact_to_the_millisecond",
        "expiry::expires_is_told",
        "swap::full_form_is_one_step",
        "programs::with_time_going_by",
    ];
    bites(|| Before::bent(IgnoresTimes), &cases);
}

/// Removes the time to live on every write, like the Redis command `SET`.
struct ForgetsTimes;

impl Bend for ForgetsTimes {
    fn write<'a>(
        &'a self,
        inner: &'a dyn RecordStore,
        mut write: RecordWrite,
    ) -> Answering<'a, Option<u64>> {
        if write.ttl == Ttl::Keep {
            write.ttl = Ttl::Clear;
        }
        inner.write(write)
    }
}

#[test]
fn times_to_live_that_are_forgotten() {
    let cases = ["expiry::other_writes_leave_it", "expiry::swaps_leave_it"];
    bites(|| Before::bent(ForgetsTimes), &cases);
}

/// Checks the conditions and writes in two steps, like a client without scripts.
struct TwoSteps;

impl Bend for TwoSteps {
    fn write<'a>(
        &'a self,
        inner: &'a dyn RecordStore,
        mut write: RecordWrite,
    ) -> Answering<'a, Option<u64>> {
        Box::pin(async move {
            let seen = inner.get_some(&write.key, None).await?;
            let holds = |condition: &Condition| match condition {
                Condition::Counter { is } => seen.as_ref().map(|seen| seen.counter) == *is,
                Condition::Field { field, is } => {
                    let fields = seen.as_ref().map(|seen| &seen.fields);
                    fields.and_then(|fields| fields.get(field.as_bytes())) == is.as_deref()
                }
                _ => true,
            };
            if !write.when.iter().all(holds) {
                return Ok(None);
            }
            // Long enough for other threads to read the same state.
            std::thread::sleep(Duration::from_millis(3));
            write.when.clear();
            inner.write(write).await
        })
    }
}

#[test]
fn writes_in_two_steps() {
    let cases = ["races::one_swap_wins", "races::one_maker_wins", "races::swap_loops_lose_nothing"];
    bites(|| Before::bent(TwoSteps), &cases);
}

/// Reads the record and rewrites all of its fields.
struct WholeRecords;

impl Bend for WholeRecords {
    fn write<'a>(
        &'a self,
        inner: &'a dyn RecordStore,
        mut write: RecordWrite,
    ) -> Answering<'a, Option<u64>> {
        Box::pin(async move {
            let seen = inner.get_some(&write.key, None).await?;
            std::thread::sleep(Duration::from_millis(1));
            let named = |field: &Field| {
                write.set.iter().any(|(set, _)| set == field) || write.clear.contains(field)
            };
            let old = seen.into_iter().flat_map(|seen| seen.fields);
            let kept: Vec<_> = old.filter(|(field, _)| !named(field)).collect();
            write.set.extend(kept.into_iter().map(|(field, value)| (field, value.into())));
            write.replace = true;
            inner.write(write).await
        })
    }
}

#[test]
fn fields_of_others_that_are_lost() {
    bites(|| Before::bent(WholeRecords), &["races::fields_of_others_stay"]);
}

struct KeepsOtherFields;

impl Bend for KeepsOtherFields {
    fn write<'a>(
        &'a self,
        inner: &'a dyn RecordStore,
        mut write: RecordWrite,
    ) -> Answering<'a, Option<u64>> {
        if !write.set.is_empty() {
            write.replace = false;
            write.clear.clear();
        }
        inner.write(write)
    }
}

#[test]
fn fields_that_stay() {
    let cases = [
        "put::replace_drops_other_fields",
        "put::sets_and_clears_in_one",
        "filters::follows_every_write",
        "programs::of_every_write",
    ];
    bites(|| Before::bent(KeepsOtherFields), &cases);
}

/// Reports a failed fence as a failed condition.
struct SoftFences;

impl Bend for SoftFences {
    fn write<'a>(
        &'a self,
        inner: &'a dyn RecordStore,
        write: RecordWrite,
    ) -> Answering<'a, Option<u64>> {
        let soft = |answer: Result<Option<u64>>| match answer {
            Err(error) if error.kind() == ErrorKind::Fenced => Ok(None),
            other => other,
        };
        Box::pin(async move { soft(inner.write(write).await) })
    }
}

#[test]
fn fences_that_are_answers() {
    let cases = [
        "fences::other_token_is_fenced",
        "fences::gone_is_fenced",
        "fences::expired_is_fenced",
        "fences::is_told_first",
        "fences::grants_end_the_ones_before",
        "programs::of_every_write",
    ];
    bites(|| Before::bent(SoftFences), &cases);
}

/// Applies the limit before the filters, like DynamoDB.
struct LimitsFirst;

impl Bend for LimitsFirst {
    fn scan<'a>(&'a self, inner: &'a dyn RecordStore, scan: Scan<'a>) -> Answering<'a, RecordPage> {
        Box::pin(async move {
            let mut page = inner.scan(scan.prefix, &[], scan.after, scan.limit).await?;
            let passes =
                |record: &Record| scan.filters.iter().all(|one| one.passes(&record.fields));
            page.records.retain(|(_, record)| passes(record));
            Ok(page)
        })
    }
}

#[test]
fn limits_before_filters() {
    let cases = [
        "scan::filters_come_before_the_limit",
        "scan::no_cursor_behind_the_last_match",
        "programs::of_every_write",
    ];
    bites(|| Before::bent(LimitsFirst), &cases);
}

/// Reads the records of a page one by one, at different times.
struct RecordByRecord;

impl Bend for RecordByRecord {
    fn scan<'a>(&'a self, inner: &'a dyn RecordStore, scan: Scan<'a>) -> Answering<'a, RecordPage> {
        Box::pin(async move {
            let mut page = inner.scan(scan.prefix, scan.filters, scan.after, scan.limit).await?;
            for (key, record) in &mut page.records {
                let now = inner.get_some(&Name::new(key.as_str())?, None).await?;
                *record = now.unwrap_or_else(|| record.clone());
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(page)
        })
    }
}

#[test]
fn pages_of_several_times() {
    bites(|| Before::bent(RecordByRecord), &["scan::page_is_of_one_time"]);
}

/// Treats the prefix as a pattern, and sorts keys without regard to case.
struct TextOrder;

impl Bend for TextOrder {
    fn scan<'a>(&'a self, inner: &'a dyn RecordStore, scan: Scan<'a>) -> Answering<'a, RecordPage> {
        Box::pin(async move {
            let prefix = scan.prefix.trim_end_matches('*');
            let mut page = inner.scan(prefix, scan.filters, scan.after, scan.limit).await?;
            page.records.sort_by_key(|(key, _)| key.to_lowercase());
            Ok(page)
        })
    }
}

#[test]
fn prefixes_that_are_patterns() {
    let cases = ["scan::keeps_to_the_prefix", "scan::goes_in_key_order"];
    bites(|| Before::bent(TextOrder), &cases);
}

/// Claims to lack capabilities that it has.
struct Modest;

impl Bend for Modest {
    fn capabilities(&self, _: Capabilities) -> Capabilities {
        Capabilities::none("modest")
    }
}

#[test]
fn what_is_lacking_and_yet_taken() {
    let about: Vec<&str> =
        ALL.iter().map(|case| case.name).filter(|name| name.starts_with("lacking::")).collect();
    assert!(about.len() >= 10, "{about:?}");
    // The case of several conditions needs the capability of conditions, which this store lacks.
    let about: Vec<&str> = about.into_iter().filter(|name| !name.contains("several")).collect();
    bites(|| Before::bent(Modest), &about);
}

/// Still answers after `close`.
struct Undead;

impl Bend for Undead {
    fn ping<'a>(&'a self, inner: &'a dyn RecordStore) -> Answering<'a, bool> {
        Box::pin(async move { inner.ping().await.map(|_| true) })
    }

    fn get<'a>(
        &'a self,
        inner: &'a dyn RecordStore,
        key: &'a Name,
        wanted: Option<&'a [Field]>,
    ) -> Answering<'a, Option<Record>> {
        let absent = |answer: Result<Option<Record>>| match answer {
            Err(error) if error.code() == Code::Closed => Ok(None),
            other => other,
        };
        Box::pin(async move { absent(inner.get_some(key, wanted).await) })
    }
}

#[test]
fn what_is_closed_and_answers() {
    bites(|| Before::bent(Undead), &["closing::closed_says_so"]);
}

/// Corrects invalid input instead of refusing it.
struct Gullible;

impl Bend for Gullible {
    fn write<'a>(
        &'a self,
        inner: &'a dyn RecordStore,
        mut write: RecordWrite,
    ) -> Answering<'a, Option<u64>> {
        let mut seen = std::collections::BTreeSet::new();
        write.set.retain(|(field, _)| seen.insert(field.clone()));
        write.clear.retain(|field| !seen.contains(field));
        if matches!(write.ttl, Ttl::Millis(0 | 1_000_000_000_000..)) {
            write.ttl = Ttl::Keep;
        }
        inner.write(write)
    }

    fn scan<'a>(&'a self, inner: &'a dyn RecordStore, scan: Scan<'a>) -> Answering<'a, RecordPage> {
        let after = scan.after.filter(|after| after.starts_with(scan.prefix));
        inner.scan(scan.prefix, scan.filters, after, scan.limit.clamp(1, 100_000))
    }
}

#[test]
fn nonsense_that_is_taken() {
    let cases = [
        "naming::field_twice_is_refused",
        "conditions::bad_writes_are_refused_whatever_is_there",
        "expiry::bad_times_are_refused",
        "scan::limits_are_checked",
        "scan::cursor_of_another_scan_is_refused",
    ];
    bites(|| Before::bent(Gullible), &cases);
}

/// Returns counter 1 for each new record, even if its counter continues.
struct ShortCounters;

impl Bend for ShortCounters {
    fn write<'a>(
        &'a self,
        inner: &'a dyn RecordStore,
        write: RecordWrite,
    ) -> Answering<'a, Option<u64>> {
        Box::pin(async move {
            let is_new = inner.get_some(&write.key, None).await?.is_none();
            let counter = inner.write(write).await?;
            Ok(counter.map(|counter| if is_new { 1 } else { counter }))
        })
    }
}

#[test]
fn counters_that_begin_anew() {
    let cases = ["delete::counters_survive_deletion", "delete::counters_survive_expiry"];
    bites(|| Before::bent(ShortCounters), &cases);
}

//! Mutation tests of the suite: each faulty store must fail the cases that cover its fault.

use super::faulty_store::{Faults, faulty};
use mainstay_conformance::suite::{self, Contract};
use mainstay_model::{
    Capabilities, Code, Condition, ErrorKind, Field, Name, Record, RecordStore, Result, Ttl,
};
use std::time::Duration;

#[track_caller]
fn detects(faults: impl Fn() -> Faults, cases: &[&str]) {
    suite::detect(|| faulty(faults()), cases);
}

#[test]
fn conditions_that_are_dropped() {
    let faults = || {
        Faults::default()
            .write(|inner, mut write| {
                write.when.clear();
                inner.write(write)
            })
            .delete_when(|inner, key, _| inner.delete(key))
    };
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
    detects(faults, &cases);
}

#[test]
fn times_to_live_that_are_ignored() {
    let faults = || Faults::default().write(|inner, write| inner.write(write.ttl(Ttl::Keep)));
    let cases = [
        "expiry::expired_is_invisible_everywhere",
        "expiry::exact_to_the_millisecond",
        "expiry::expires_is_told",
        "swap::full_form_is_one_step",
        "programs::with_time_going_by",
    ];
    detects(faults, &cases);
}

#[test]
fn times_to_live_that_are_forgotten() {
    // Removes the time to live on every write, like the Redis command `SET`.
    let faults = || {
        Faults::default().write(|inner, mut write| {
            if write.ttl == Ttl::Keep {
                write.ttl = Ttl::Clear;
            }
            inner.write(write)
        })
    };
    let cases = ["expiry::other_writes_leave_it", "expiry::swaps_leave_it"];
    detects(faults, &cases);
}

#[test]
fn writes_in_two_steps() {
    // Checks the conditions and writes in two steps, like a client without scripts.
    let faults = || {
        Faults::default().write(|inner, mut write| {
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
        })
    };
    let cases = ["races::one_swap_wins", "races::one_maker_wins", "races::swap_loops_lose_nothing"];
    detects(faults, &cases);
}

#[test]
fn fields_of_others_that_are_lost() {
    // Reads the record and rewrites all of its fields.
    let faults = || {
        Faults::default().write(|inner, mut write| {
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
        })
    };
    detects(faults, &["races::fields_of_others_stay"]);
}

#[test]
fn fields_that_stay() {
    let faults = || {
        Faults::default().write(|inner, mut write| {
            if !write.set.is_empty() {
                write.replace = false;
                write.clear.clear();
            }
            inner.write(write)
        })
    };
    let cases = [
        "put::replace_drops_other_fields",
        "put::sets_and_clears_in_one",
        "filters::follows_every_write",
        "programs::of_every_write",
    ];
    detects(faults, &cases);
}

#[test]
fn fences_that_are_answers() {
    // Reports a failed fence as a failed condition.
    let faults = || {
        Faults::default().write(|inner, write| {
            let soft = |answer: Result<Option<u64>>| match answer {
                Err(error) if error.kind() == ErrorKind::Fenced => Ok(None),
                other => other,
            };
            Box::pin(async move { soft(inner.write(write).await) })
        })
    };
    let cases = [
        "fences::other_token_is_fenced",
        "fences::gone_is_fenced",
        "fences::expired_is_fenced",
        "fences::is_told_first",
        "fences::grants_end_the_ones_before",
        "programs::of_every_write",
    ];
    detects(faults, &cases);
}

#[test]
fn limits_before_filters() {
    // Applies the limit before the filters, like DynamoDB.
    let faults = || {
        Faults::default().scan(|inner, prefix, filters, after, limit| {
            Box::pin(async move {
                let mut page = inner.scan(prefix, &[], after, limit).await?;
                let passes = |record: &Record| filters.iter().all(|one| one.passes(&record.fields));
                page.records.retain(|(_, record)| passes(record));
                Ok(page)
            })
        })
    };
    let cases = [
        "scan::filters_come_before_the_limit",
        "scan::no_cursor_behind_the_last_match",
        "programs::of_every_write",
    ];
    detects(faults, &cases);
}

#[test]
fn pages_of_several_times() {
    // Reads the records of a page one by one, at different times.
    let faults = || {
        Faults::default().scan(|inner, prefix, filters, after, limit| {
            Box::pin(async move {
                let mut page = inner.scan(prefix, filters, after, limit).await?;
                for (key, record) in &mut page.records {
                    let now = inner.get_some(&Name::new(key.as_str())?, None).await?;
                    *record = now.unwrap_or_else(|| record.clone());
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(page)
            })
        })
    };
    detects(faults, &["scan::page_is_of_one_time"]);
}

#[test]
fn prefixes_that_are_patterns() {
    // Treats the prefix as a pattern, and sorts keys without regard to case.
    let faults = || {
        Faults::default().scan(|inner, prefix, filters, after, limit| {
            Box::pin(async move {
                let prefix = prefix.trim_end_matches('*');
                let mut page = inner.scan(prefix, filters, after, limit).await?;
                page.records.sort_by_key(|(key, _)| key.to_lowercase());
                Ok(page)
            })
        })
    };
    let cases = ["scan::keeps_to_the_prefix", "scan::goes_in_key_order"];
    detects(faults, &cases);
}

#[test]
fn what_is_lacking_and_yet_taken() {
    // Claims to lack capabilities that it has.
    let faults = || Faults::default().capabilities(|_| Capabilities::none("modest"));
    let names = <dyn RecordStore>::cases().iter().map(|case| case.name);
    let about: Vec<&str> = names.filter(|name| name.starts_with("lacking::")).collect();
    assert!(about.len() >= 10, "{about:?}");
    // The case of several conditions needs the capability of conditions, which this store lacks.
    let about: Vec<&str> = about.into_iter().filter(|name| !name.contains("several")).collect();
    detects(faults, &about);
}

#[test]
fn what_is_closed_and_answers() {
    // Still answers after `close`.
    let faults = || {
        Faults::default()
            .ping(|inner| Box::pin(async move { inner.ping().await.map(|_| true) }))
            .get_some(|inner, key, wanted| {
                let absent = |answer: Result<Option<Record>>| match answer {
                    Err(error) if error.code() == Code::Closed => Ok(None),
                    other => other,
                };
                Box::pin(async move { absent(inner.get_some(key, wanted).await) })
            })
    };
    detects(faults, &["closing::closed_says_so"]);
}

#[test]
fn nonsense_that_is_taken() {
    // Corrects invalid input instead of refusing it.
    let faults = || {
        Faults::default()
            .write(|inner, mut write| {
                let mut seen = std::collections::BTreeSet::new();
                write.set.retain(|(field, _)| seen.insert(field.clone()));
                write.clear.retain(|field| !seen.contains(field));
                if matches!(write.ttl, Ttl::Millis(0 | 1_000_000_000_000..)) {
                    write.ttl = Ttl::Keep;
                }
                inner.write(write)
            })
            .scan(|inner, prefix, filters, after, limit| {
                let after = after.filter(|after| after.starts_with(prefix));
                inner.scan(prefix, filters, after, limit.clamp(1, 100_000))
            })
    };
    let cases = [
        "naming::field_twice_is_refused",
        "conditions::bad_writes_are_refused_whatever_is_there",
        "expiry::bad_times_are_refused",
        "scan::limits_are_checked",
        "scan::cursor_of_another_scan_is_refused",
    ];
    detects(faults, &cases);
}

#[test]
fn counters_that_begin_anew() {
    // Returns counter 1 for each new record, even if its counter continues.
    let faults = || {
        Faults::default().write(|inner, write| {
            Box::pin(async move {
                let is_new = inner.get_some(&write.key, None).await?.is_none();
                let counter = inner.write(write).await?;
                Ok(counter.map(|counter| if is_new { 1 } else { counter }))
            })
        })
    };
    let cases = ["delete::counters_survive_deletion", "delete::counters_survive_expiry"];
    detects(faults, &cases);
}

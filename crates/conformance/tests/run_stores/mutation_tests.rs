//! Mutation tests of the suite: each faulty store must fail the cases that cover its fault.

use super::faulty_store::{Faults, faulty};
use super::gappy::Gappy;
use mainstay_conformance::suite::{self, Contract};
use mainstay_model::{
    Answering, Appended, CanonicalEvent, Code, FetchOptions, NewEvent, RunCapabilities, RunFilter,
    RunSnapshot, RunStore, Value,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[track_caller]
fn detects(faults: impl Fn() -> Faults, cases: &[&str]) {
    suite::detect(|| faulty(Gappy::without_habits(), faults()), cases);
}

/// A number that no other event has.
fn unique() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

/// Appends the events of a batch one by one, without atomicity.
fn one_by_one(inner: &dyn RunStore, events: Vec<NewEvent>) -> Answering<'_, Vec<Appended>> {
    Box::pin(async move {
        let mut answers = Vec::new();
        for event in events {
            answers.push(inner.append_event(event).await?);
        }
        Ok(answers)
    })
}

#[test]
fn keys_that_are_forgotten() {
    // Treats each event as new.
    let faults = || {
        Faults::default().append_event(|inner, mut event| {
            let checked = event.key();
            Box::pin(async move {
                event.idempotency_key = Some(format!("{}-{}", checked?, unique()));
                inner.append_event(event).await
            })
        })
    };
    let cases = [
        "idempotency::told_twice_is_one_event",
        "idempotency::other_data_is_a_conflict",
        "idempotency::first_stays_as_it_was",
        "keys::made_by_the_formula",
        "keys::signals_have_keys_of_their_own",
        "races::one_event_of_a_key",
        "programs::of_every_kind",
    ];
    detects(faults, &cases);
}

#[test]
fn keys_that_are_looked_for_first() {
    // Looks up the key and appends in two steps.
    let faults = || {
        Faults::default().append_event(|inner, mut event| {
            Box::pin(async move {
                let key = event.key()?;
                let all = FetchOptions::default().limit(100_000);
                let events = inner.fetch_events(&event.run_id, all).await?;
                let has_it = |stored: &CanonicalEvent| {
                    stored.idempotency_key.starts_with(&format!("{key}#"))
                };
                event.idempotency_key = match events.iter().find(|stored| has_it(stored)) {
                    Some(stored) => Some(stored.idempotency_key.clone()),
                    None => Some(format!("{key}#{}", unique())),
                };
                // Long enough for other threads to look up the key too.
                std::thread::sleep(Duration::from_millis(3));
                inner.append_event(event).await
            })
        })
    };
    detects(faults, &["races::one_event_of_a_key"]);
}

#[test]
fn conflicts_that_are_hidden() {
    // Never reports conflicts.
    let faults = || {
        Faults::default().append_event(|inner, event| {
            Box::pin(
                async move { Ok(Appended { conflict: false, ..inner.append_event(event).await? }) },
            )
        })
    };
    let cases = [
        "idempotency::other_data_is_a_conflict",
        "idempotency::other_type_is_a_conflict",
        "restore::keys_are_known",
        "programs::of_every_kind",
    ];
    detects(faults, &cases);
}

#[test]
fn fields_that_are_dropped() {
    // Drops unknown fields.
    let faults = || {
        Faults::default().append_event(|inner, mut event| {
            event.more.clear();
            event.emitted_at = None;
            inner.append_event(event)
        })
    };
    let cases = ["append::unknown_fields_are_kept", "append::what_is_said_survives"];
    detects(faults, &cases);
}

#[test]
fn events_out_of_order() {
    // Returns events in reverse order, and treats the start position as inclusive.
    let faults = || {
        Faults::default().fetch_events(|inner, run, options| {
            Box::pin(async move {
                let after = options.after_seq.saturating_sub(1);
                let mut page =
                    inner.fetch_events(run, FetchOptions { after_seq: after, ..options }).await?;
                page.reverse();
                Ok(page)
            })
        })
    };
    let cases = [
        "fetch::goes_in_order",
        "fetch::after_is_exclusive",
        "fetch::beyond_the_end_is_empty",
        "programs::of_every_kind",
    ];
    detects(faults, &cases);
}

#[test]
fn nonsense_that_is_taken() {
    // Accepts any page limit, and corrects invalid events.
    let faults = || {
        Faults::default()
            .append_event(|inner, mut event| {
                if event.event_type.starts_with("Step")
                    && event.step_id.as_deref().unwrap_or("").is_empty()
                {
                    event.step_id = Some("some".into());
                }
                event.idempotency_key.get_or_insert_with(|| "some".into());
                if event.idempotency_key.as_deref() == Some("") {
                    event.idempotency_key = Some("some".into());
                }
                if event.event_data.weight_bytes() > 1 << 20 {
                    event.event_data = Value::Null;
                }
                inner.append_event(event)
            })
            .fetch_events(|inner, run, options| {
                inner.fetch_events(run, options.limit(options.limit.clamp(1, 100_000)))
            })
            .list(|inner, filter, after, limit| inner.list(filter, after, limit.clamp(1, 100_000)))
    };
    let cases = [
        "input::step_event_without_a_step",
        "input::empty_key",
        "input::payload_over_the_limit",
        "input::nothing_is_left_of_what_was_refused",
        "keys::bar_inside_is_refused",
        "keys::nothing_to_go_by_is_refused",
        "fetch::limits_are_checked",
        "list::limits_are_checked",
    ];
    detects(faults, &cases);
}

#[test]
fn snapshots_that_are_behind() {
    // Returns snapshots that are one event behind.
    let faults = || {
        Faults::default().get_snapshot(|inner, run| {
            Box::pin(async move {
                let Some(now) = inner.get_snapshot(run).await? else { return Ok(None) };
                inner.snapshot_at(run, now.last_event_seq - 1).await
            })
        })
    };
    let cases = [
        "snapshot::is_never_behind",
        "snapshot::is_the_projection",
        "snapshot::unknown_types_move_the_watermark",
        "info::follows_every_event",
        "programs::of_every_kind",
    ];
    detects(faults, &cases);
}

#[test]
fn marks_that_are_missing() {
    // Hides the mark of inconsistency.
    let faults = || {
        Faults::default().get_snapshot(|inner, run| {
            Box::pin(async move {
                let snapshot = inner.get_snapshot(run).await?;
                Ok(snapshot.map(|it| RunSnapshot { flags: Default::default(), ..it }))
            })
        })
    };
    let cases = ["snapshot::illegal_marks_the_run", "snapshot::is_the_projection"];
    detects(faults, &cases);
}

#[test]
fn batches_by_halves() {
    let faults = || {
        Faults::default().append_batch(one_by_one).bootstrap(|inner, run, metadata, events| {
            Box::pin(async move {
                inner.bootstrap(run, metadata, Vec::new()).await?;
                one_by_one(inner, events).await
            })
        })
    };
    let cases = [
        "batch::bad_event_writes_nothing",
        "batch::deleted_run_writes_nothing",
        "bootstrap::bad_event_makes_nothing",
    ];
    detects(faults, &cases);
}

#[test]
fn sequences_that_are_not_looked_at() {
    // Ignores the expected sequence number.
    let faults = || Faults::default().append_expecting(|inner, event, _| inner.append_event(event));
    let cases = [
        "expected::moved_is_refused",
        "expected::of_nothing_is_zero",
        "races::one_expecting_wins",
        "programs::of_every_kind",
    ];
    detects(faults, &cases);
}

#[test]
fn runs_that_do_not_die() {
    // Does not delete, but returns true if the run exists.
    let faults = || {
        Faults::default()
            .delete_run(|inner, run| Box::pin(async move { Ok(inner.get(run).await?.is_some()) }))
    };
    let cases = [
        "delete::deleted_is_gone_everywhere",
        "delete::appends_are_not_found",
        "delete::says_whether_it_was_there",
        "races::one_deletion_wins",
        "programs::of_every_kind",
    ];
    detects(faults, &cases);
}

#[test]
fn archives_that_are_told_anew() {
    // Appends archived events as new ones.
    let faults = || {
        Faults::default().restore(|inner, events| {
            Box::pin(async move {
                for event in events {
                    let mut new = NewEvent::new(&event.run_id, &event.event_type);
                    new.step_id = event.step_id;
                    new.idempotency_key = Some(event.idempotency_key);
                    inner.append_event(new).await?;
                }
                Ok(())
            })
        })
    };
    let cases = [
        "restore::events_are_as_they_were",
        "restore::keys_are_known",
        "restore::deleted_run_comes_back",
        "restore::of_another_contract_is_refused",
    ];
    detects(faults, &cases);
}

#[test]
fn pages_that_are_cut_first() {
    // Applies the limit before the filter.
    let faults = || {
        Faults::default().list(|inner, filter, after, limit| {
            Box::pin(async move {
                let mut page = inner.list(&RunFilter::of(&filter.prefix), after, limit).await?;
                page.runs.retain(|run| filter.status.is_none_or(|status| status == run.status));
                Ok(page)
            })
        })
    };
    let cases = ["list::filters_come_before_the_limit", "list::by_time"];
    detects(faults, &cases);
}

#[test]
fn waits_that_end_too_early() {
    // Returns false at once, without a check.
    let faults =
        || Faults::default().wait_for(|_, _, _, _| Box::pin(std::future::ready(Ok(false))));
    let cases = [
        "tail::what_is_there_is_not_waited_for",
        "tail::append_wakes",
        "tail::other_runs_do_not_count",
    ];
    detects(faults, &cases);
}

#[test]
fn gaps_that_are_denied() {
    // Claims to have no gaps.
    let faults = || {
        Faults::default()
            .capabilities(|inner| RunCapabilities {
                contiguous: true,
                monotone: true,
                ..inner.capabilities()
            })
            .append_event(|inner, event| {
                Box::pin(async move {
                    let appended = inner.append_event(event).await;
                    // Long enough for a reader to see this state.
                    std::thread::sleep(Duration::from_millis(1));
                    appended
                })
            })
            .fetch_events(|inner, run, options| {
                Box::pin(async move {
                    let mut page = inner.fetch_events(run, options).await?;
                    // The second newest event appears late, like that of a slow transaction.
                    if page.len() > 1 {
                        page.remove(page.len() - 2);
                    }
                    Ok(page)
                })
            })
    };
    let cases = ["append::sequences_have_no_gaps", "fetch::seen_is_never_overtaken"];
    suite::detect(|| faulty(Gappy::with_habits(), faults()), &cases);
}

#[test]
fn what_is_lacking_and_yet_taken() {
    // Claims to lack capabilities that it has.
    let faults = || {
        Faults::default().capabilities(|inner| {
            let payload_limit_bytes = inner.capabilities().payload_limit_bytes;
            RunCapabilities { payload_limit_bytes, ..RunCapabilities::none("modest") }
        })
    };
    let names = <dyn RunStore>::cases().iter().map(|case| case.name);
    let about = names.filter(|name| name.starts_with("lacking::"));
    // The filter cases need the listing capability, which this store lacks.
    let about: Vec<&str> = about.filter(|name| !name.contains("filters")).collect();
    assert!(about.len() >= 7, "{about:?}");
    detects(faults, &about);
}

#[test]
fn what_is_closed_and_answers() {
    // Still answers after `close`.
    let faults = || {
        Faults::default()
            .ping(|inner| Box::pin(async move { inner.ping().await.map(|_| true) }))
            .fetch_events(|inner, run, options| {
                Box::pin(async move {
                    match inner.fetch_events(run, options).await {
                        Err(error) if error.code() == Code::Closed => Ok(Vec::new()),
                        other => other,
                    }
                })
            })
    };
    detects(faults, &["closing::closed_says_so"]);
}

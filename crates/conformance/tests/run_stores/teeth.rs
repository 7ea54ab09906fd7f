//! Mutation tests of the suite: each faulty store must fail the cases that cover its fault.

use super::bent::{Before, Bend};
use mainstay_conformance::RunWorld;
use mainstay_conformance::run_store_cases::ALL;
use mainstay_model::{
    Answering, Appended, CanonicalEvent, Code, FetchOptions, NewEvent, RunCapabilities, RunFilter,
    RunPage, RunSnapshot, RunStore, Value,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Asserts that each case fails on the faulty store. Other tests check that the cases pass on the
/// correct store.
#[track_caller]
fn bites(bend: fn() -> Before, cases: &[&str]) {
    for name in cases {
        let case = ALL.iter().find(|case| case.name == *name).expect("there is such a case");
        let world = bend();
        assert_eq!(case.excuse(&world), None, "{name}");
        let passed = catch_unwind(AssertUnwindSafe(|| case.run(&world as &dyn RunWorld)));
        assert!(passed.is_err(), "{name} did not notice");
    }
}

/// Treats each event as new.
#[derive(Default)]
struct ForgetsKeys(AtomicU64);

impl Bend for ForgetsKeys {
    fn append<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        mut event: NewEvent,
    ) -> Answering<'a, Appended> {
        let checked = event.key();
        Box::pin(async move {
            let count = self.0.fetch_add(1, Ordering::Relaxed);
            event.idempotency_key = Some(format!("{}-{count}", checked?));
            inner.append_event(event).await
        })
    }
}

#[test]
fn keys_that_are_forgotten() {
    let cases = [
        "idempotency::told_twice_is_one_event",
        "idempotency::other_data_is_a_conflict",
        "idempotency::first_stays_as_it_was",
        "keys::made_by_the_formula",
        "keys::signals_have_keys_of_their_own",
        "races::one_event_of_a_key",
        "programs::of_every_kind",
    ];
    bites(|| Before::bent(ForgetsKeys::default()), &cases);
}

/// Looks up the key and appends in two steps.
struct TwoSteps(AtomicU64);

impl Bend for TwoSteps {
    fn append<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        mut event: NewEvent,
    ) -> Answering<'a, Appended> {
        Box::pin(async move {
            let key = event.key()?;
            let all = FetchOptions::default().limit(100_000);
            let events = inner.fetch_events(&event.run_id, all).await?;
            let has_it =
                |stored: &CanonicalEvent| stored.idempotency_key.starts_with(&format!("{key}#"));
            event.idempotency_key = match events.iter().find(|stored| has_it(stored)) {
                Some(stored) => Some(stored.idempotency_key.clone()),
                None => Some(format!("{key}#{}", self.0.fetch_add(1, Ordering::Relaxed))),
            };
            // Long enough for other threads to look up the key too.
            std::thread::sleep(Duration::from_millis(3));
            inner.append_event(event).await
        })
    }
}

#[test]
fn keys_that_are_looked_for_first() {
    bites(|| Before::bent(TwoSteps(AtomicU64::new(0))), &["races::one_event_of_a_key"]);
}

/// Never reports conflicts.
struct HidesConflicts;

impl Bend for HidesConflicts {
    fn append<'a>(&'a self, inner: &'a dyn RunStore, event: NewEvent) -> Answering<'a, Appended> {
        Box::pin(
            async move { Ok(Appended { conflict: false, ..inner.append_event(event).await? }) },
        )
    }
}

#[test]
fn conflicts_that_are_hidden() {
    let cases = [
        "idempotency::other_data_is_a_conflict",
        "idempotency::other_type_is_a_conflict",
        "restore::keys_are_known",
        "programs::of_every_kind",
    ];
    bites(|| Before::bent(HidesConflicts), &cases);
}

/// Drops unknown fields.
struct DropsUnknown;

impl Bend for DropsUnknown {
    fn append<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        mut event: NewEvent,
    ) -> Answering<'a, Appended> {
        event.more.clear();
        event.emitted_at = None;
        inner.append_event(event)
    }
}

#[test]
fn fields_that_are_dropped() {
    let cases = ["append::unknown_fields_are_kept", "append::what_is_said_survives"];
    bites(|| Before::bent(DropsUnknown), &cases);
}

/// Returns events in reverse order, and treats the start position as inclusive.
struct Disorder;

impl Bend for Disorder {
    fn fetch<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        run: &'a str,
        options: FetchOptions,
    ) -> Answering<'a, Vec<CanonicalEvent>> {
        Box::pin(async move {
            let after = options.after_seq.saturating_sub(1);
            let mut page =
                inner.fetch_events(run, FetchOptions { after_seq: after, ..options }).await?;
            page.reverse();
            Ok(page)
        })
    }
}

#[test]
fn events_out_of_order() {
    let cases = [
        "fetch::goes_in_order",
        "fetch::after_is_exclusive",
        "fetch::beyond_the_end_is_empty",
        "programs::of_every_kind",
    ];
    bites(|| Before::bent(Disorder), &cases);
}

/// Accepts any page limit, and corrects invalid events.
struct Gullible;

impl Bend for Gullible {
    fn append<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        mut event: NewEvent,
    ) -> Answering<'a, Appended> {
        if event.event_type.starts_with("Step") && event.step_id.as_deref().unwrap_or("").is_empty()
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
    }

    fn fetch<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        run: &'a str,
        options: FetchOptions,
    ) -> Answering<'a, Vec<CanonicalEvent>> {
        inner.fetch_events(run, options.limit(options.limit.clamp(1, 100_000)))
    }

    fn list<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        filter: &'a RunFilter,
        after: Option<&'a str>,
        limit: usize,
    ) -> Answering<'a, RunPage> {
        inner.list(filter, after, limit.clamp(1, 100_000))
    }
}

#[test]
fn nonsense_that_is_taken() {
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
    bites(|| Before::bent(Gullible), &cases);
}

/// Returns snapshots that are one event behind.
struct Behind;

impl Bend for Behind {
    fn snapshot<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        run: &'a str,
    ) -> Answering<'a, Option<RunSnapshot>> {
        Box::pin(async move {
            let Some(now) = inner.get_snapshot(run).await? else { return Ok(None) };
            inner.snapshot_at(run, now.last_event_seq - 1).await
        })
    }
}

#[test]
fn snapshots_that_are_behind() {
    let cases = [
        "snapshot::is_never_behind",
        "snapshot::is_the_projection",
        "snapshot::unknown_types_move_the_watermark",
        "info::follows_every_event",
        "programs::of_every_kind",
    ];
    bites(|| Before::bent(Behind), &cases);
}

/// Hides the mark of inconsistency.
struct Forgives;

impl Bend for Forgives {
    fn snapshot<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        run: &'a str,
    ) -> Answering<'a, Option<RunSnapshot>> {
        Box::pin(async move {
            let snapshot = inner.get_snapshot(run).await?;
            Ok(snapshot.map(|it| RunSnapshot { flags: Default::default(), ..it }))
        })
    }
}

#[test]
fn marks_that_are_missing() {
    let cases = ["snapshot::illegal_marks_the_run", "snapshot::is_the_projection"];
    bites(|| Before::bent(Forgives), &cases);
}

/// Appends the events of a batch one by one, without atomicity.
struct HalfBatches;

impl Bend for HalfBatches {
    fn batch<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        events: Vec<NewEvent>,
    ) -> Answering<'a, Vec<Appended>> {
        Box::pin(async move {
            let mut answers = Vec::new();
            for event in events {
                answers.push(inner.append_event(event).await?);
            }
            Ok(answers)
        })
    }

    fn bootstrap<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        run: &'a str,
        metadata: Value,
        events: Vec<NewEvent>,
    ) -> Answering<'a, Vec<Appended>> {
        Box::pin(async move {
            inner.bootstrap(run, metadata, Vec::new()).await?;
            self.batch(inner, events).await
        })
    }
}

#[test]
fn batches_by_halves() {
    let cases = [
        "batch::bad_event_writes_nothing",
        "batch::deleted_run_writes_nothing",
        "bootstrap::bad_event_makes_nothing",
    ];
    bites(|| Before::bent(HalfBatches), &cases);
}

/// Ignores the expected sequence number.
struct Unconditional;

impl Bend for Unconditional {
    fn expecting<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        event: NewEvent,
        _: u64,
    ) -> Answering<'a, Appended> {
        inner.append_event(event)
    }
}

#[test]
fn sequences_that_are_not_looked_at() {
    let cases = [
        "expected::moved_is_refused",
        "expected::of_nothing_is_zero",
        "races::one_expecting_wins",
        "programs::of_every_kind",
    ];
    bites(|| Before::bent(Unconditional), &cases);
}

/// Does not delete, but returns true if the run exists.
struct Undying;

impl Bend for Undying {
    fn delete<'a>(&'a self, inner: &'a dyn RunStore, run: &'a str) -> Answering<'a, bool> {
        Box::pin(async move { Ok(inner.get(run).await?.is_some()) })
    }
}

#[test]
fn runs_that_do_not_die() {
    let cases = [
        "delete::deleted_is_gone_everywhere",
        "delete::appends_are_not_found",
        "delete::says_whether_it_was_there",
        "races::one_deletion_wins",
        "programs::of_every_kind",
    ];
    bites(|| Before::bent(Undying), &cases);
}

/// Appends archived events as new ones.
struct Renumbers;

impl Bend for Renumbers {
    fn restore<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        events: Vec<CanonicalEvent>,
    ) -> Answering<'a, ()> {
        Box::pin(async move {
            for event in events {
                let mut new = NewEvent::new(&event.run_id, &event.event_type);
                new.step_id = event.step_id;
                new.idempotency_key = Some(event.idempotency_key);
                inner.append_event(new).await?;
            }
            Ok(())
        })
    }
}

#[test]
fn archives_that_are_told_anew() {
    let cases = [
        "restore::events_are_as_they_were",
        "restore::keys_are_known",
        "restore::deleted_run_comes_back",
        "restore::of_another_contract_is_refused",
    ];
    bites(|| Before::bent(Renumbers), &cases);
}

/// Applies the limit before the filter.
struct LimitsFirst;

impl Bend for LimitsFirst {
    fn list<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        filter: &'a RunFilter,
        after: Option<&'a str>,
        limit: usize,
    ) -> Answering<'a, RunPage> {
        Box::pin(async move {
            let mut page = inner.list(&RunFilter::of(&filter.prefix), after, limit).await?;
            page.runs.retain(|run| filter.status.is_none_or(|status| status == run.status));
            Ok(page)
        })
    }
}

#[test]
fn pages_that_are_cut_first() {
    let cases = ["list::filters_come_before_the_limit", "list::by_time"];
    bites(|| Before::bent(LimitsFirst), &cases);
}

/// Returns false at once, without a check.
struct Impatient;

impl Bend for Impatient {
    fn wait_for<'a>(
        &'a self,
        _: &'a dyn RunStore,
        _: &'a str,
        _: u64,
        _: u64,
    ) -> Answering<'a, bool> {
        Box::pin(std::future::ready(Ok(false)))
    }
}

#[test]
fn waits_that_end_too_early() {
    let cases = [
        "tail::what_is_there_is_not_waited_for",
        "tail::append_wakes",
        "tail::other_runs_do_not_count",
    ];
    bites(|| Before::bent(Impatient), &cases);
}

/// Claims to have no gaps.
struct Boasts;

impl Bend for Boasts {
    fn capabilities(&self, inner: RunCapabilities) -> RunCapabilities {
        RunCapabilities { contiguous: true, monotone: true, ..inner }
    }

    fn append<'a>(&'a self, inner: &'a dyn RunStore, event: NewEvent) -> Answering<'a, Appended> {
        Box::pin(async move {
            let appended = inner.append_event(event).await;
            // Long enough for a reader to see this state.
            std::thread::sleep(Duration::from_millis(1));
            appended
        })
    }

    fn fetch<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        run: &'a str,
        options: FetchOptions,
    ) -> Answering<'a, Vec<CanonicalEvent>> {
        Box::pin(async move {
            let mut page = inner.fetch_events(run, options).await?;
            // The second newest event appears late, like that of a slow transaction.
            if page.len() > 1 {
                page.remove(page.len() - 2);
            }
            Ok(page)
        })
    }
}

#[test]
fn gaps_that_are_denied() {
    let cases = ["append::sequences_have_no_gaps", "fetch::seen_is_never_overtaken"];
    bites(|| Before::bent_gappy(Boasts), &cases);
}

/// Claims to lack capabilities that it has.
struct Modest;

impl Bend for Modest {
    fn capabilities(&self, inner: RunCapabilities) -> RunCapabilities {
        let payload_limit_bytes = inner.payload_limit_bytes;
        RunCapabilities { payload_limit_bytes, ..RunCapabilities::none("modest") }
    }
}

#[test]
fn what_is_lacking_and_yet_taken() {
    let about = ALL.iter().map(|case| case.name).filter(|name| name.starts_with("lacking::"));
    // The filter cases need the listing capability, which this store lacks.
    let about: Vec<&str> = about.filter(|name| !name.contains("filters")).collect();
    assert!(about.len() >= 7, "{about:?}");
    bites(|| Before::bent(Modest), &about);
}

/// Still answers after `close`.
struct Undead;

impl Bend for Undead {
    fn ping<'a>(&'a self, inner: &'a dyn RunStore) -> Answering<'a, bool> {
        Box::pin(async move { inner.ping().await.map(|_| true) })
    }

    fn fetch<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        run: &'a str,
        options: FetchOptions,
    ) -> Answering<'a, Vec<CanonicalEvent>> {
        Box::pin(async move {
            match inner.fetch_events(run, options).await {
                Err(error) if error.code() == Code::Closed => Ok(Vec::new()),
                other => other,
            }
        })
    }
}

#[test]
fn what_is_closed_and_answers() {
    bites(|| Before::bent(Undead), &["closing::closed_says_so"]);
}

//! The projector on a store with gaps and late events.

mod monotone;
mod producer;

use mainstay_model::{CanonicalEvent, FetchOptions, NewEvent, RunSnapshot, RunStatus, RunStore};
use mainstay_runs::{
    AlertKind, GappyStore, ManualClock, Projection, Projector, Resync, Settings, Severity,
};
use monotone::MonotoneStore;
use std::collections::BTreeSet;
use std::sync::Arc;

const START_US: u64 = 1_700_000_000_000_000;

/// Runs a future that never waits long.
fn wait<T>(answer: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(answer)
}

/// A store, its clock, and a projector that follows `r`.
struct Fixture {
    time: Arc<ManualClock>,
    store: Arc<GappyStore>,
    projector: Projector,
}

impl Fixture {
    fn new(settings: Settings) -> Fixture {
        let time = ManualClock::at_us(START_US);
        let store = Arc::new(GappyStore::new(time.clone()));
        let projector = Projector::new(store.clone(), time.clone(), settings).unwrap();
        projector.follow("r").unwrap();
        Fixture { time, store, projector }
    }

    fn append(&self, event_type: &str) -> u64 {
        let event = NewEvent::new("r", event_type);
        let event = if event_type.starts_with("Step") { event.step("s") } else { event };
        let key = format!("{event_type}-{}", self.time_and_count());
        wait(self.store.append_event(event.with_key(&key))).unwrap().run_seq
    }

    /// A number that no two appends share.
    fn time_and_count(&self) -> usize {
        let all = FetchOptions::default().limit(100_000);
        let shown = wait(self.store.fetch_events("r", all)).unwrap().len();
        shown + self.store.hidden("r").len()
    }

    fn hidden(&self, event_type: &str) -> u64 {
        self.store.hide_next("r");
        self.append(event_type)
    }

    fn poll(&self) {
        wait(self.projector.poll("r")).unwrap();
    }

    fn pass_and_poll(&self, ms: u64) {
        self.time.pass_ms(ms);
        self.poll();
    }

    fn watermark(&self) -> u64 {
        self.projector.snapshot("r").unwrap().last_event_seq
    }

    fn alerts(&self) -> Vec<(AlertKind, u64)> {
        self.projector.take_alerts().iter().map(|alert| (alert.kind, alert.run_seq)).collect()
    }

    #[track_caller]
    fn is_what_the_log_gives(&self) {
        let folded = wait(self.store.project_snapshot("r")).unwrap().unwrap();
        let kept = self.projector.snapshot("r").unwrap();
        assert_eq!(kept, folded);
        assert_eq!(kept.hash(), folded.hash());
    }
}

#[test]
fn a_gap_is_waited_for_and_what_fills_it_goes_in_its_place() {
    let fixture = Fixture::new(Settings::default());
    fixture.append("RunStarted");
    let late = fixture.hidden("StepStarted");
    fixture.append("StepCompleted");
    fixture.poll();
    assert_eq!((fixture.watermark(), fixture.projector.is_stale("r")), (1, true));
    assert_eq!(fixture.alerts(), [(AlertKind::Stale, late)]);
    fixture.pass_and_poll(500);
    assert_eq!(fixture.alerts(), [], "it is told when it begins");
    assert_eq!(fixture.projector.run_stats("r").unwrap().lag_ms, 500);
    fixture.store.make_visible("r", late);
    fixture.poll();
    assert_eq!((fixture.watermark(), fixture.projector.is_stale("r")), (3, false));
    assert_eq!(fixture.projector.stats().lag_ms, 0);
    assert!(!fixture.projector.snapshot("r").unwrap().is_inconsistent());
    fixture.is_what_the_log_gives();
}

#[test]
fn a_gap_that_never_fills_is_given_up_and_recorded() {
    let fixture = Fixture::new(Settings::default());
    fixture.append("RunStarted");
    fixture.store.skip_numbers("r", 3);
    fixture.append("RunPaused");
    fixture.store.skip_numbers("r", 1);
    fixture.append("RunResumed");
    fixture.poll();
    assert_eq!(fixture.watermark(), 1);
    fixture.pass_and_poll(1_999);
    assert_eq!(fixture.watermark(), 1);
    // Both gaps were seen at the same time and are given up at the same time.
    fixture.pass_and_poll(1);
    assert_eq!((fixture.watermark(), fixture.projector.is_stale("r")), (7, false));
    let gaps = fixture.projector.gaps("r");
    let numbers: Vec<_> = gaps.iter().map(|gap| (gap.first, gap.last)).collect();
    assert_eq!(numbers, [(2, 4), (6, 6)]);
    assert_eq!(gaps[0].seen_us, START_US);
    let counters = fixture.projector.stats().counters;
    assert_eq!((counters.gaps_passed, counters.late, counters.resyncs_from_snapshot), (2, 0, 0));
    assert_eq!(fixture.alerts(), [(AlertKind::Stale, 2)]);
    fixture.is_what_the_log_gives();
}

/// Gives up an event, lets it arrive, and polls.
fn late_event(resync: Resync) -> Fixture {
    let fixture = Fixture::new(Settings { resync, ..Settings::default() });
    fixture.append("RunStarted");
    fixture.store.skip_numbers("r", 1);
    fixture.append("StepStarted");
    let late = fixture.hidden("StepFailed");
    fixture.append("StepRetried");
    fixture.poll();
    fixture.pass_and_poll(2_000);
    assert_eq!(fixture.watermark(), 5);
    // A retry of a running step is illegal.
    assert!(fixture.projector.snapshot("r").unwrap().is_inconsistent());
    assert_eq!(fixture.alerts(), [(AlertKind::Stale, 2), (AlertKind::Inconsistent, 5)]);
    fixture.store.make_visible("r", late);
    fixture.pass_and_poll(1_000);
    assert_eq!(fixture.alerts(), [(AlertKind::Stale, late)]);
    assert!(!fixture.projector.is_stale("r"));
    assert!(!fixture.projector.snapshot("r").unwrap().is_inconsistent(), "it has its place now");
    fixture.is_what_the_log_gives();
    let numbers: Vec<_> =
        fixture.projector.gaps("r").iter().map(|gap| (gap.first, gap.last)).collect();
    assert_eq!(numbers, [(2, 2)]);
    fixture
}

#[test]
fn an_event_that_comes_after_it_was_given_up_gets_its_place() {
    let counters = late_event(Resync::FromSnapshot).projector.stats().counters;
    assert_eq!((counters.late, counters.resyncs_from_snapshot, counters.resyncs_full), (1, 1, 0));
    let counters = late_event(Resync::Full).projector.stats().counters;
    assert_eq!((counters.late, counters.resyncs_from_snapshot, counters.resyncs_full), (1, 0, 1));
}

#[test]
fn part_of_a_gap_that_comes_late_leaves_the_rest_of_it_known() {
    let fixture = Fixture::new(Settings::default());
    fixture.append("RunStarted");
    let hidden = [(); 3].map(|()| fixture.hidden("Tick"));
    fixture.append("RunPaused");
    fixture.poll();
    fixture.pass_and_poll(2_000);
    fixture.store.make_visible("r", hidden[1]);
    fixture.pass_and_poll(1_000);
    let numbers: Vec<_> =
        fixture.projector.gaps("r").iter().map(|gap| (gap.first, gap.last)).collect();
    assert_eq!(numbers, [(2, 2), (4, 4)]);
    fixture.store.make_visible("r", hidden[0]);
    fixture.store.make_visible("r", hidden[2]);
    fixture.pass_and_poll(10_000);
    fixture.pass_and_poll(10_000);
    assert_eq!(fixture.projector.gaps("r"), []);
    fixture.is_what_the_log_gives();
}

#[test]
fn an_event_that_cannot_follow_is_told_once_however_often_it_is_folded() {
    let fixture = Fixture::new(Settings::default());
    let seqs =
        ["RunStarted", "RunStarted", "RunCompleted", "RunPaused"].map(|it| fixture.append(it));
    fixture.poll();
    assert_eq!(
        fixture.alerts(),
        [(AlertKind::Inconsistent, seqs[1]), (AlertKind::Inconsistent, seqs[3])]
    );
    for how in [Resync::Full, Resync::FromSnapshot, Resync::Full] {
        wait(fixture.projector.resync("r", how)).unwrap();
    }
    assert_eq!(fixture.alerts(), []);
    // After storing and resuming the projection, the alert is not repeated either.
    let kept = serde_json::to_string(&fixture.projector.unfollow("r").unwrap()).unwrap();
    let known: Projection = serde_json::from_str(&kept).unwrap();
    fixture.projector.follow_from(known).unwrap();
    wait(fixture.projector.resync("r", Resync::Full)).unwrap();
    assert_eq!(fixture.alerts(), []);
    fixture.is_what_the_log_gives();
}

#[test]
fn lag_is_told_above_five_seconds_and_resynced_above_ten() {
    let fixture = Fixture::new(Settings::default());
    fixture.append("RunStarted");
    fixture.pass_and_poll(5_000);
    assert_eq!(fixture.alerts(), []);
    fixture.append("RunPaused");
    fixture.pass_and_poll(5_001);
    let alerts = fixture.projector.take_alerts();
    let told: Vec<_> = alerts.iter().map(|it| (it.kind, it.severity, it.run_seq)).collect();
    assert_eq!(told, [(AlertKind::ProjectorLagHigh, Severity::P2, 2)]);
    let text = serde_json::to_string(&alerts[0]).unwrap();
    assert!(text.contains(r#""kind":"PROJECTOR_LAG_HIGH","severity":"P2","runId":"r""#), "{text}");
    assert_eq!(fixture.projector.stats().counters.resyncs_from_snapshot, 0);
    fixture.append("RunResumed");
    fixture.pass_and_poll(10_001);
    assert_eq!(fixture.alerts(), [(AlertKind::ProjectorLagHigh, 3)]);
    assert_eq!(fixture.projector.stats().counters.resyncs_from_snapshot, 1);
    let stats = fixture.projector.stats();
    assert_eq!((stats.lag_ms, stats.lag_target_ms), (0, 1_000));
    fixture.is_what_the_log_gives();
}

#[test]
fn a_lag_that_goes_on_is_told_and_resynced_once() {
    let fixture = Fixture::new(Settings { patience_ms: 60_000, ..Settings::default() });
    fixture.append("RunStarted");
    fixture.store.skip_numbers("r", 1);
    fixture.append("RunPaused");
    (0..40).for_each(|_| fixture.pass_and_poll(1_000));
    assert_eq!(fixture.projector.run_stats("r").unwrap().lag_ms, 40_000);
    assert_eq!(fixture.alerts(), [(AlertKind::Stale, 2), (AlertKind::ProjectorLagHigh, 3)]);
    assert_eq!(fixture.projector.stats().counters.resyncs_from_snapshot, 1);
}

#[test]
fn a_look_takes_what_it_may_and_tells_what_is_left() {
    let settings = Settings { page: 2, pages_per_poll: 2, ..Settings::default() };
    let fixture = Fixture::new(settings);
    for _ in 0..7 {
        fixture.append("Tick");
    }
    fixture.pass_and_poll(300);
    assert_eq!((fixture.watermark(), fixture.projector.stats().lag_ms), (4, 300));
    // A resync processes all events.
    wait(fixture.projector.resync("r", Resync::Full)).unwrap();
    assert_eq!((fixture.watermark(), fixture.projector.stats().lag_ms), (7, 0));
}

#[test]
fn what_is_known_has_limits() {
    let settings = Settings {
        runs_limit: 1,
        gaps_limit: 2,
        told_limit: 1,
        alerts_limit: 2,
        ..Settings::default()
    };
    let fixture = Fixture::new(settings);
    let refused = fixture.projector.follow("other").unwrap_err();
    assert!(refused.message().contains("runs_limit"), "{refused}");
    fixture.projector.follow("r").unwrap();
    for _ in 0..4 {
        fixture.store.skip_numbers("r", 1);
        fixture.append("RunResumed");
    }
    fixture.poll();
    (0..4).for_each(|_| fixture.pass_and_poll(2_000));
    assert_eq!(fixture.watermark(), 8);
    assert_eq!(fixture.projector.gaps("r").len(), 2);
    let counters = fixture.projector.stats().counters;
    assert_eq!((counters.gaps_passed, counters.gaps_forgotten), (4, 2));
    assert_eq!(counters.alerts_suppressed, 3);
    let alerts = fixture.projector.take_alerts().len() as u64;
    assert_eq!((alerts, alerts + counters.alerts_dropped), (2, counters.alerts));
    assert!(Settings { gaps_limit: 0, ..Settings::default() }.check().is_err());
}

#[test]
fn a_store_without_late_events_is_not_waited_for() {
    let fixture = Fixture::new(Settings::default());
    let store = Arc::new(MonotoneStore(fixture.store.clone()));
    let projector = Projector::new(store, fixture.time.clone(), Settings::default()).unwrap();
    projector.follow("r").unwrap();
    fixture.append("RunStarted");
    fixture.store.skip_numbers("r", 5);
    fixture.append("RunCompleted");
    wait(projector.poll("r")).unwrap();
    let snapshot = projector.snapshot("r").unwrap();
    assert_eq!((snapshot.last_event_seq, snapshot.status), (7, RunStatus::Completed));
    assert_eq!((projector.gaps("r"), projector.take_alerts()), (vec![], vec![]));
}

#[test]
fn a_store_that_fails_is_counted_and_asked_again() {
    let fixture = Fixture::new(Settings::default());
    fixture.append("RunStarted");
    wait(fixture.store.close()).unwrap();
    let failed = wait(fixture.projector.poll_all());
    assert_eq!(failed.len(), 1);
    assert_eq!(fixture.projector.stats().counters.failures, 1);
    assert!(wait(fixture.projector.poll("unknown")).unwrap_err().message().contains("follow"));
}

#[test]
fn it_looks_again_and_again() {
    let fixture = Fixture::new(Settings::default());
    wait(async {
        let running = fixture.projector.run();
        let work = async {
            fixture.append_now("RunStarted").await;
            while fixture.watermark() < 1 {
                fixture.time.pass_ms(200);
                tokio::task::yield_now().await;
            }
        };
        tokio::select! { () = running => {}, () = work => {} }
    });
    assert_eq!(fixture.watermark(), 1);
}

impl Fixture {
    async fn append_now(&self, event_type: &str) {
        self.store.append_event(NewEvent::new("r", event_type).plan("1")).await.unwrap();
    }
}

mod random {
    use super::producer::{Action, actions};
    use super::*;
    use proptest::prelude::*;

    fn act(fixture: &Fixture, action: &Action) {
        match action {
            Action::Append(event_type) => {
                fixture.append(event_type);
            }
            Action::Hide(event_type) => {
                fixture.hidden(event_type);
            }
            Action::Burn(count) => fixture.store.skip_numbers("r", *count),
            Action::Show(which) => show(fixture, *which),
            Action::Pass(ms) => fixture.time.pass_ms(*ms),
            Action::Poll => fixture.poll(),
            Action::Resync(how) => wait(fixture.projector.resync("r", *how)).unwrap(),
            Action::Restart => {
                let known = fixture.projector.unfollow("r").unwrap();
                fixture.projector.follow_from(known).unwrap();
            }
        }
    }

    fn show(fixture: &Fixture, which: usize) {
        let held = fixture.store.hidden("r");
        if !held.is_empty() {
            fixture.store.make_visible("r", held[which % held.len()]);
        }
    }

    proptest! {
        /// In any order of events: finally the snapshot equals a fold of all visible events, and no event is
        /// reported twice.
        #[test]
        fn in_the_end_it_is_what_the_log_gives(
            actions in actions(),
            full in any::<bool>(),
            page in 1..5_usize,
        ) {
            let resync = if full { Resync::Full } else { Resync::FromSnapshot };
            let fixture = Fixture::new(Settings { resync, page, ..Settings::default() });
            actions.iter().for_each(|action| act(&fixture, action));
            // Events that are still held are never shown. All others get enough time.
            for _ in 0..actions.len() + 3 {
                fixture.pass_and_poll(60_000);
            }
            let folded = wait(fixture.store.project_snapshot("r")).unwrap();
            let kept = fixture.projector.snapshot("r").unwrap();
            prop_assert_eq!(&kept, &folded.unwrap_or_else(|| RunSnapshot::new("r")));
            prop_assert!(!fixture.projector.is_stale("r"));
            prop_assert_eq!(fixture.projector.stats().lag_ms, 0);
            let alerts = fixture.projector.take_alerts();
            let about: Vec<u64> = alerts.iter()
                .filter(|alert| alert.kind == AlertKind::Inconsistent)
                .map(|alert| alert.run_seq)
                .collect();
            let once: BTreeSet<u64> = about.iter().copied().collect();
            prop_assert_eq!(once.len(), about.len(), "told twice: {:?}", about);
            prop_assert!(!kept.is_inconsistent() || !once.is_empty(), "it was not told");
            prop_assert!(illegal(&fixture).is_subset(&once));
        }
    }

    /// The illegal events in the current log.
    fn illegal(fixture: &Fixture) -> BTreeSet<u64> {
        let all = FetchOptions::default().limit(100_000);
        let events = wait(fixture.store.fetch_events("r", all)).unwrap();
        let mut run = RunSnapshot::new("r");
        let mut is_illegal = |event: &&CanonicalEvent| {
            let judgement = mainstay_model::reduce(&mut run, event);
            matches!(judgement, mainstay_model::Judgement::Illegal(_))
        };
        events.iter().filter(|event| is_illegal(event)).map(|event| event.run_seq).collect()
    }
}

#[test]
fn pages_that_are_too_large_are_taken_in_smaller_ones() {
    let fixture = Fixture::new(Settings::default());
    let large =
        |n: u64| NewEvent::new("r", "Tick").data(&"x".repeat(1_000)).with_key(&n.to_string());
    for n in 1..=200 {
        wait(fixture.store.append_event(large(n))).unwrap();
    }
    let all = wait(fixture.store.project_snapshot("r")).unwrap();
    let one = wait(fixture.store.fetch_events("r", FetchOptions::default().limit(1))).unwrap();
    fixture.store.limit_answers(50 * one[0].weight_bytes());
    fixture.poll();
    assert_eq!(fixture.watermark(), 200);
    // The store's own fold, and the projector's resync.
    assert_eq!(wait(fixture.store.project_snapshot("r")).unwrap(), all);
    wait(fixture.projector.resync("r", Resync::Full)).unwrap();
    assert_eq!(fixture.projector.snapshot("r"), all);
}

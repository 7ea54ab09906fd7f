//! The projector on a store with gaps and late events.

mod monotone;
mod producer;

use mainstay_model::{CanonicalEvent, FetchOptions, NewEvent, RunSnapshot, RunStatus, RunStore};
use mainstay_runs::{
    AlertKind, GappyStore, HandTime, Projection, Projector, Resync, Settings, Severity,
};
use monotone::Monotone;
use std::collections::BTreeSet;
use std::sync::Arc;

const START_US: u64 = 1_700_000_000_000_000;

/// Runs a future that never waits long.
fn wait<T>(answer: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(answer)
}

/// A store, its clock, and a projector that follows `r`.
struct Stage {
    time: Arc<HandTime>,
    store: Arc<GappyStore>,
    projector: Projector,
}

impl Stage {
    fn new(settings: Settings) -> Stage {
        let time = HandTime::at_us(START_US);
        let store = Arc::new(GappyStore::new(time.clone()));
        let projector = Projector::new(store.clone(), time.clone(), settings).unwrap();
        projector.follow("r").unwrap();
        Stage { time, store, projector }
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
        shown + self.store.held("r").len()
    }

    fn hidden(&self, event_type: &str) -> u64 {
        self.store.hold_next("r");
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

    fn told(&self) -> Vec<(AlertKind, u64)> {
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
    let stage = Stage::new(Settings::default());
    stage.append("RunStarted");
    let late = stage.hidden("StepStarted");
    stage.append("StepCompleted");
    stage.poll();
    assert_eq!((stage.watermark(), stage.projector.is_stale("r")), (1, true));
    assert_eq!(stage.told(), [(AlertKind::Stale, late)]);
    stage.pass_and_poll(500);
    assert_eq!(stage.told(), [], "it is told when it begins");
    assert_eq!(stage.projector.run_figures("r").unwrap().lag_ms, 500);
    stage.store.show("r", late);
    stage.poll();
    assert_eq!((stage.watermark(), stage.projector.is_stale("r")), (3, false));
    assert_eq!(stage.projector.figures().lag_ms, 0);
    assert!(!stage.projector.snapshot("r").unwrap().is_inconsistent());
    stage.is_what_the_log_gives();
}

#[test]
fn a_gap_that_never_fills_is_given_up_and_recorded() {
    let stage = Stage::new(Settings::default());
    stage.append("RunStarted");
    stage.store.burn("r", 3);
    stage.append("RunPaused");
    stage.store.burn("r", 1);
    stage.append("RunResumed");
    stage.poll();
    assert_eq!(stage.watermark(), 1);
    stage.pass_and_poll(1_999);
    assert_eq!(stage.watermark(), 1);
    // Both gaps were seen at the same time and are given up at the same time.
    stage.pass_and_poll(1);
    assert_eq!((stage.watermark(), stage.projector.is_stale("r")), (7, false));
    let gaps = stage.projector.gaps("r");
    let numbers: Vec<_> = gaps.iter().map(|gap| (gap.first, gap.last)).collect();
    assert_eq!(numbers, [(2, 4), (6, 6)]);
    assert_eq!(gaps[0].seen_us, START_US);
    let counted = stage.projector.figures().counted;
    assert_eq!((counted.gaps_passed, counted.late, counted.resyncs_from_snapshot), (2, 0, 0));
    assert_eq!(stage.told(), [(AlertKind::Stale, 2)]);
    stage.is_what_the_log_gives();
}

/// Gives up an event, lets it arrive, and polls.
fn late_event(resync: Resync) -> Stage {
    let stage = Stage::new(Settings { resync, ..Settings::default() });
    stage.append("RunStarted");
    stage.store.burn("r", 1);
    stage.append("StepStarted");
    let late = stage.hidden("StepFailed");
    stage.append("StepRetried");
    stage.poll();
    stage.pass_and_poll(2_000);
    assert_eq!(stage.watermark(), 5);
    // A retry of a running step is illegal.
    assert!(stage.projector.snapshot("r").unwrap().is_inconsistent());
    assert_eq!(stage.told(), [(AlertKind::Stale, 2), (AlertKind::Inconsistent, 5)]);
    stage.store.show("r", late);
    stage.pass_and_poll(1_000);
    assert_eq!(stage.told(), [(AlertKind::Stale, late)]);
    assert!(!stage.projector.is_stale("r"));
    assert!(!stage.projector.snapshot("r").unwrap().is_inconsistent(), "it has its place now");
    stage.is_what_the_log_gives();
    let numbers: Vec<_> =
        stage.projector.gaps("r").iter().map(|gap| (gap.first, gap.last)).collect();
    assert_eq!(numbers, [(2, 2)]);
    stage
}

#[test]
fn an_event_that_comes_after_it_was_given_up_gets_its_place() {
    let counted = late_event(Resync::FromSnapshot).projector.figures().counted;
    assert_eq!((counted.late, counted.resyncs_from_snapshot, counted.resyncs_full), (1, 1, 0));
    let counted = late_event(Resync::Full).projector.figures().counted;
    assert_eq!((counted.late, counted.resyncs_from_snapshot, counted.resyncs_full), (1, 0, 1));
}

#[test]
fn part_of_a_gap_that_comes_late_leaves_the_rest_of_it_known() {
    let stage = Stage::new(Settings::default());
    stage.append("RunStarted");
    let hidden = [(); 3].map(|()| stage.hidden("Tick"));
    stage.append("RunPaused");
    stage.poll();
    stage.pass_and_poll(2_000);
    stage.store.show("r", hidden[1]);
    stage.pass_and_poll(1_000);
    let numbers: Vec<_> =
        stage.projector.gaps("r").iter().map(|gap| (gap.first, gap.last)).collect();
    assert_eq!(numbers, [(2, 2), (4, 4)]);
    stage.store.show("r", hidden[0]);
    stage.store.show("r", hidden[2]);
    stage.pass_and_poll(10_000);
    stage.pass_and_poll(10_000);
    assert_eq!(stage.projector.gaps("r"), []);
    stage.is_what_the_log_gives();
}

#[test]
fn an_event_that_cannot_follow_is_told_once_however_often_it_is_folded() {
    let stage = Stage::new(Settings::default());
    let seqs = ["RunStarted", "RunStarted", "RunCompleted", "RunPaused"].map(|it| stage.append(it));
    stage.poll();
    assert_eq!(
        stage.told(),
        [(AlertKind::Inconsistent, seqs[1]), (AlertKind::Inconsistent, seqs[3])]
    );
    for how in [Resync::Full, Resync::FromSnapshot, Resync::Full] {
        wait(stage.projector.resync("r", how)).unwrap();
    }
    assert_eq!(stage.told(), []);
    // After storing and resuming the projection, the alert is not repeated either.
    let kept = serde_json::to_string(&stage.projector.forget("r").unwrap()).unwrap();
    let known: Projection = serde_json::from_str(&kept).unwrap();
    stage.projector.follow_from(known).unwrap();
    wait(stage.projector.resync("r", Resync::Full)).unwrap();
    assert_eq!(stage.told(), []);
    stage.is_what_the_log_gives();
}

#[test]
fn lag_is_told_above_five_seconds_and_resynced_above_ten() {
    let stage = Stage::new(Settings::default());
    stage.append("RunStarted");
    stage.pass_and_poll(5_000);
    assert_eq!(stage.told(), []);
    stage.append("RunPaused");
    stage.pass_and_poll(5_001);
    let alerts = stage.projector.take_alerts();
    let told: Vec<_> = alerts.iter().map(|it| (it.kind, it.severity, it.run_seq)).collect();
    assert_eq!(told, [(AlertKind::ProjectorLagHigh, Severity::P2, 2)]);
    let text = serde_json::to_string(&alerts[0]).unwrap();
    assert!(text.contains(r#""kind":"PROJECTOR_LAG_HIGH","severity":"P2","runId":"r""#), "{text}");
    assert_eq!(stage.projector.figures().counted.resyncs_from_snapshot, 0);
    stage.append("RunResumed");
    stage.pass_and_poll(10_001);
    assert_eq!(stage.told(), [(AlertKind::ProjectorLagHigh, 3)]);
    assert_eq!(stage.projector.figures().counted.resyncs_from_snapshot, 1);
    let figures = stage.projector.figures();
    assert_eq!((figures.lag_ms, figures.lag_target_ms), (0, 1_000));
    stage.is_what_the_log_gives();
}

#[test]
fn a_lag_that_goes_on_is_told_and_resynced_once() {
    let stage = Stage::new(Settings { patience_ms: 60_000, ..Settings::default() });
    stage.append("RunStarted");
    stage.store.burn("r", 1);
    stage.append("RunPaused");
    (0..40).for_each(|_| stage.pass_and_poll(1_000));
    assert_eq!(stage.projector.run_figures("r").unwrap().lag_ms, 40_000);
    assert_eq!(stage.told(), [(AlertKind::Stale, 2), (AlertKind::ProjectorLagHigh, 3)]);
    assert_eq!(stage.projector.figures().counted.resyncs_from_snapshot, 1);
}

#[test]
fn a_look_takes_what_it_may_and_tells_what_is_left() {
    let settings = Settings { page: 2, pages_per_poll: 2, ..Settings::default() };
    let stage = Stage::new(settings);
    for _ in 0..7 {
        stage.append("Tick");
    }
    stage.pass_and_poll(300);
    assert_eq!((stage.watermark(), stage.projector.figures().lag_ms), (4, 300));
    // A resync processes all events.
    wait(stage.projector.resync("r", Resync::Full)).unwrap();
    assert_eq!((stage.watermark(), stage.projector.figures().lag_ms), (7, 0));
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
    let stage = Stage::new(settings);
    let refused = stage.projector.follow("other").unwrap_err();
    assert!(refused.message().contains("runs_limit"), "{refused}");
    stage.projector.follow("r").unwrap();
    for _ in 0..4 {
        stage.store.burn("r", 1);
        stage.append("RunResumed");
    }
    stage.poll();
    (0..4).for_each(|_| stage.pass_and_poll(2_000));
    assert_eq!(stage.watermark(), 8);
    assert_eq!(stage.projector.gaps("r").len(), 2);
    let counted = stage.projector.figures().counted;
    assert_eq!((counted.gaps_passed, counted.gaps_forgotten), (4, 2));
    assert_eq!(counted.alerts_untold, 3);
    let alerts = stage.projector.take_alerts().len() as u64;
    assert_eq!((alerts, alerts + counted.alerts_dropped), (2, counted.alerts));
    assert!(Settings { gaps_limit: 0, ..Settings::default() }.check().is_err());
}

#[test]
fn a_store_without_late_events_is_not_waited_for() {
    let stage = Stage::new(Settings::default());
    let store = Arc::new(Monotone(stage.store.clone()));
    let projector = Projector::new(store, stage.time.clone(), Settings::default()).unwrap();
    projector.follow("r").unwrap();
    stage.append("RunStarted");
    stage.store.burn("r", 5);
    stage.append("RunCompleted");
    wait(projector.poll("r")).unwrap();
    let snapshot = projector.snapshot("r").unwrap();
    assert_eq!((snapshot.last_event_seq, snapshot.status), (7, RunStatus::Completed));
    assert_eq!((projector.gaps("r"), projector.take_alerts()), (vec![], vec![]));
}

#[test]
fn a_store_that_fails_is_counted_and_asked_again() {
    let stage = Stage::new(Settings::default());
    stage.append("RunStarted");
    wait(stage.store.close()).unwrap();
    let failed = wait(stage.projector.poll_all());
    assert_eq!(failed.len(), 1);
    assert_eq!(stage.projector.figures().counted.failures, 1);
    assert!(wait(stage.projector.poll("unknown")).unwrap_err().message().contains("follow"));
}

#[test]
fn it_looks_again_and_again() {
    let stage = Stage::new(Settings::default());
    wait(async {
        let running = stage.projector.run();
        let work = async {
            stage.append_now("RunStarted").await;
            while stage.watermark() < 1 {
                stage.time.pass_ms(200);
                tokio::task::yield_now().await;
            }
        };
        tokio::select! { () = running => {}, () = work => {} }
    });
    assert_eq!(stage.watermark(), 1);
}

impl Stage {
    async fn append_now(&self, event_type: &str) {
        self.store.append_event(NewEvent::new("r", event_type).plan("1")).await.unwrap();
    }
}

mod random {
    use super::producer::{Deed, deeds};
    use super::*;
    use proptest::prelude::*;

    fn act(stage: &Stage, deed: &Deed) {
        match deed {
            Deed::Append(event_type) => {
                stage.append(event_type);
            }
            Deed::Hide(event_type) => {
                stage.hidden(event_type);
            }
            Deed::Burn(count) => stage.store.burn("r", *count),
            Deed::Show(which) => show(stage, *which),
            Deed::Pass(ms) => stage.time.pass_ms(*ms),
            Deed::Poll => stage.poll(),
            Deed::Resync(how) => wait(stage.projector.resync("r", *how)).unwrap(),
            Deed::Restart => {
                let known = stage.projector.forget("r").unwrap();
                stage.projector.follow_from(known).unwrap();
            }
        }
    }

    fn show(stage: &Stage, which: usize) {
        let held = stage.store.held("r");
        if !held.is_empty() {
            stage.store.show("r", held[which % held.len()]);
        }
    }

    proptest! {
        /// In any order of events: finally the snapshot equals a fold of all visible events, and no event is
        /// reported twice.
        #[test]
        fn in_the_end_it_is_what_the_log_gives(
            deeds in deeds(),
            full in any::<bool>(),
            page in 1..5_usize,
        ) {
            let resync = if full { Resync::Full } else { Resync::FromSnapshot };
            let stage = Stage::new(Settings { resync, page, ..Settings::default() });
            deeds.iter().for_each(|deed| act(&stage, deed));
            // Events that are still held are never shown. All others get enough time.
            for _ in 0..deeds.len() + 3 {
                stage.pass_and_poll(60_000);
            }
            let folded = wait(stage.store.project_snapshot("r")).unwrap();
            let kept = stage.projector.snapshot("r").unwrap();
            prop_assert_eq!(&kept, &folded.unwrap_or_else(|| RunSnapshot::new("r")));
            prop_assert!(!stage.projector.is_stale("r"));
            prop_assert_eq!(stage.projector.figures().lag_ms, 0);
            let alerts = stage.projector.take_alerts();
            let about: Vec<u64> = alerts.iter()
                .filter(|alert| alert.kind == AlertKind::Inconsistent)
                .map(|alert| alert.run_seq)
                .collect();
            let once: BTreeSet<u64> = about.iter().copied().collect();
            prop_assert_eq!(once.len(), about.len(), "told twice: {:?}", about);
            prop_assert!(!kept.is_inconsistent() || !once.is_empty(), "it was not told");
            prop_assert!(illegal(&stage).is_subset(&once));
        }
    }

    /// The illegal events in the current log.
    fn illegal(stage: &Stage) -> BTreeSet<u64> {
        let all = FetchOptions::default().limit(100_000);
        let events = wait(stage.store.fetch_events("r", all)).unwrap();
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
    let stage = Stage::new(Settings::default());
    let large =
        |n: u64| NewEvent::new("r", "Tick").data(&"x".repeat(1_000)).with_key(&n.to_string());
    for n in 1..=200 {
        wait(stage.store.append_event(large(n))).unwrap();
    }
    let all = wait(stage.store.project_snapshot("r")).unwrap();
    let one = wait(stage.store.fetch_events("r", FetchOptions::default().limit(1))).unwrap();
    stage.store.limit_answers(50 * one[0].weight_bytes());
    stage.poll();
    assert_eq!(stage.watermark(), 200);
    // The store's own fold, and the projector's resync.
    assert_eq!(wait(stage.store.project_snapshot("r")).unwrap(), all);
    wait(stage.projector.resync("r", Resync::Full)).unwrap();
    assert_eq!(stage.projector.snapshot("r"), all);
}

//! User reducers: up-to-date states, panics, and reprojection.

mod monotone;

use mainstay::Database;
use mainstay_model::{
    Answering, CanonicalEvent, ErrorKind, FetchOptions, KeptState, NewEvent, RunSnapshot, RunStore,
    Value, from_value,
};
use mainstay_runs::{
    AnyReducer, DefaultReducer, EngineKeeper, GappyStore, HandTime, KEEP_AFTER_EVENTS,
    MemoryKeeper, Progress, Reduced, Reducer, Reprojection, StateKeeper,
};
use monotone::Monotone;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn wait<T>(answer: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(answer)
}

/// Counts events, weighted by its version, and panics at events that request it.
struct Counts {
    version: u64,
    folded: AtomicU64,
}

impl Counts {
    fn of(version: u64) -> Arc<Counts> {
        Arc::new(Counts { version, folded: AtomicU64::new(0) })
    }

    fn folded(&self) -> u64 {
        self.folded.swap(0, Ordering::Relaxed)
    }
}

impl Reducer for Counts {
    type State = u64;

    fn name(&self) -> &str {
        "counts"
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn initial(&self, run: &str) -> u64 {
        assert!(run != "unheard", "a run of this name");
        0
    }

    fn apply(&self, state: &mut u64, event: &CanonicalEvent) {
        assert!(event.event_type != "Boom", "it went boom");
        self.folded.fetch_add(1, Ordering::Relaxed);
        *state += self.version;
    }
}

struct Stage {
    gappy: Arc<GappyStore>,
    store: Arc<Monotone>,
    keeper: Arc<MemoryKeeper>,
}

impl Stage {
    fn new() -> Stage {
        let gappy = Arc::new(GappyStore::new(HandTime::at_us(1_700_000_000_000_000)));
        let store = Arc::new(Monotone(gappy.clone()));
        Stage { gappy, store, keeper: Arc::default() }
    }

    fn append(&self, run: &str, event_type: &str, count: u64) {
        let first = wait(self.gappy.get(run)).unwrap().map_or(0, |run| run.last_event_seq);
        for n in first..first + count {
            let event = NewEvent::new(run, event_type).with_key(&n.to_string());
            wait(self.store.append_event(event)).unwrap();
        }
    }

    fn reduced(&self, reducer: &Arc<Counts>) -> Reduced {
        Reduced::new(self.store.clone(), self.keeper.clone(), reducer.clone())
    }

    fn kept(&self, run: &str, version: u64) -> Option<KeptState> {
        wait(self.keeper.kept(run, "counts", version)).unwrap()
    }
}

fn state(state: Option<KeptState>) -> Option<(u64, i64)> {
    state.map(|kept| (kept.seq, kept.state.as_i64().unwrap()))
}

#[test]
fn a_state_is_folded_forward_on_read_and_kept_when_it_is_old() {
    let stage = Stage::new();
    let counts = Counts::of(1);
    let reduced = stage.reduced(&counts);
    assert_eq!(wait(reduced.snapshot("r")).unwrap(), None);
    stage.append("r", "Tick", KEEP_AFTER_EVENTS);
    assert_eq!(state(wait(reduced.snapshot("r")).unwrap()), Some((256, 256)));
    assert_eq!(stage.kept("r", 1), None, "256 events are not many");
    stage.append("r", "Tick", 1);
    assert_eq!(state(wait(reduced.snapshot("r")).unwrap()), Some((257, 257)));
    assert_eq!(state(stage.kept("r", 1)), Some((257, 257)));
    counts.folded();
    stage.append("r", "Tick", 3);
    assert_eq!(state(wait(reduced.snapshot("r")).unwrap()), Some((260, 260)));
    assert_eq!(counts.folded(), 3, "the rest was kept");
}

#[test]
fn pages_that_are_too_large_are_taken_in_smaller_ones() {
    let stage = Stage::new();
    let counts = Counts::of(1);
    stage.append("r", "Tick", 300);
    let one = wait(stage.gappy.fetch_events("r", FetchOptions::default().limit(1))).unwrap();
    stage.gappy.limit_answers(50 * one[0].weight_bytes());
    assert_eq!(state(wait(stage.reduced(&counts).snapshot("r")).unwrap()), Some((300, 300)));
    let all = Reprojection::new(stage.reduced(&Counts::of(2)));
    assert_eq!(wait(all.run()).unwrap().events_done, 300);
}

#[test]
fn a_state_of_another_version_is_not_used() {
    let stage = Stage::new();
    let counts = Counts::of(1);
    stage.append("r", "Tick", 300);
    wait(stage.reduced(&counts).snapshot("r")).unwrap();
    let next = Counts::of(2);
    let snapshot = wait(stage.reduced(&next).snapshot("r")).unwrap();
    assert_eq!(state(snapshot), Some((300, 600)));
}

#[test]
fn a_state_of_a_run_that_is_gone_is_not_used() {
    let stage = Stage::new();
    let counts = Counts::of(1);
    stage.append("r", "Tick", 300);
    wait(stage.reduced(&counts).refresh("r")).unwrap();
    wait(stage.store.delete_run("r")).unwrap();
    assert_eq!(wait(stage.reduced(&counts).snapshot("r")).unwrap(), None);
}

#[test]
fn where_events_may_come_late_nothing_is_kept() {
    let stage = Stage::new();
    let counts = Counts::of(1);
    stage.append("r", "Tick", 1);
    stage.gappy.hold_next("r");
    stage.append("r", "Tick", 1);
    stage.gappy.show("r", 2);
    stage.append("r", "Tick", 400);
    stage.gappy.hold_next("r");
    let event = NewEvent::new("r", "Tick").with_key("late");
    let late = wait(stage.gappy.append_event(event)).unwrap().run_seq;
    let event = NewEvent::new("r", "Tick").with_key("behind it");
    wait(stage.gappy.append_event(event)).unwrap();
    let reduced = Reduced::new(stage.gappy.clone(), stage.keeper.clone(), counts.clone());
    assert_eq!(state(wait(reduced.snapshot("r")).unwrap()), Some((404, 403)));
    stage.gappy.show("r", late);
    assert_eq!(state(wait(reduced.snapshot("r")).unwrap()), Some((404, 404)));
}

#[test]
fn a_panic_is_an_error_that_names_run_event_and_reducer() {
    let stage = Stage::new();
    let counts = Counts::of(3);
    stage.append("r", "Tick", 1);
    stage.append("r", "Boom", 1);
    stage.append("r", "Tick", 1);
    let error = wait(stage.reduced(&counts).snapshot("r")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    for part in ["`counts`", "version 3", "event 2", "Boom", "`r`", "it went boom"] {
        assert!(error.message().contains(part), "{part}: {error}");
    }
    let events = wait(stage.store.fetch_events("r", FetchOptions::default())).unwrap();
    assert_eq!(events.len(), 3, "the log is as it was");
    let error = AnyReducer::initial(&*counts, "unheard").unwrap_err();
    assert!(error.message().contains("`unheard`"), "{error}");
}

#[test]
fn the_reducer_that_all_runs_have_is_one_of_them() {
    let stage = Stage::new();
    for (key, event_type) in ["RunStarted", "RunPaused", "RunStarted"].iter().enumerate() {
        let event = NewEvent::new("r", event_type).with_key(&key.to_string());
        wait(stage.store.append_event(event)).unwrap();
    }
    let reducer = Arc::new(DefaultReducer);
    let reduced = Reduced::new(stage.store.clone(), stage.keeper.clone(), reducer);
    let state = wait(reduced.snapshot("r")).unwrap().unwrap().state;
    let snapshot: RunSnapshot = from_value(state).unwrap();
    assert_eq!(Some(snapshot), wait(stage.store.project_snapshot("r")).unwrap());
}

#[test]
fn all_runs_are_projected_anew_with_progress() {
    let stage = Stage::new();
    let counts = Counts::of(2);
    (0..5).for_each(|n| stage.append(&format!("r{n}"), "Tick", n + 1));
    stage.append("bad", "Boom", 1);
    let again = Reprojection::new(stage.reduced(&counts));
    let progress = wait(again.run()).unwrap();
    assert_eq!((progress.runs_done, progress.runs_total), (6, 6));
    assert_eq!((progress.events_done, progress.runs_failed), (15, 1));
    assert_eq!(progress.failures[0].run_id, "bad");
    assert!(progress.done && progress == again.progress());
    assert_eq!(state(stage.kept("r4", 2)), Some((5, 10)));
    assert_eq!(stage.kept("bad", 2), None);
    // A second run has nothing to fold.
    counts.folded();
    wait(Reprojection::new(stage.reduced(&counts)).run()).unwrap();
    assert_eq!(counts.folded(), 0);
}

/// A keeper that fails after this many stored states.
struct Failing {
    inner: Arc<MemoryKeeper>,
    left: AtomicU64,
}

impl StateKeeper for Failing {
    fn kept<'a>(
        &'a self,
        run: &'a str,
        reducer: &'a str,
        version: u64,
    ) -> Answering<'a, Option<KeptState>> {
        self.inner.kept(run, reducer, version)
    }

    fn keep<'a>(
        &'a self,
        run: &'a str,
        reducer: &'a str,
        version: u64,
        state: KeptState,
    ) -> Answering<'a, ()> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            let error = mainstay_model::Error::new(mainstay_model::Code::DiskFull, "full");
            return Box::pin(std::future::ready(Err(error)));
        }
        self.inner.keep(run, reducer, version, state)
    }
}

#[test]
fn what_was_interrupted_goes_on_where_it_was() {
    let stage = Stage::new();
    let counts = Counts::of(2);
    (0..4).for_each(|n| stage.append(&format!("r{n}"), "Tick", 10));
    let failing = Failing { inner: stage.keeper.clone(), left: AtomicU64::new(2) };
    let reduced = Reduced::new(stage.store.clone(), Arc::new(failing), counts.clone());
    let first = Reprojection::new(reduced);
    assert_eq!(wait(first.run()).unwrap_err().kind(), ErrorKind::ReadOnly);
    let text = serde_json::to_string(&first.progress()).unwrap();
    let progress: Progress = serde_json::from_str(&text).unwrap();
    assert_eq!((progress.runs_done, progress.runs_total, progress.done), (2, 4, false));
    counts.folded();
    let progress = wait(Reprojection::resume(stage.reduced(&counts), progress).run()).unwrap();
    assert_eq!((progress.runs_done, progress.events_done, progress.done), (4, 40, true));
    assert_eq!(counts.folded(), 20, "two runs were done");
}

#[test]
fn a_long_run_is_kept_on_the_way() {
    let stage = Stage::new();
    let counts = Counts::of(1);
    let events: Vec<NewEvent> =
        (0..12_000).map(|n| NewEvent::new("r", "Tick").with_key(&format!("k{n}"))).collect();
    wait(stage.gappy.append_batch(events)).unwrap();
    let failing = Failing { inner: stage.keeper.clone(), left: AtomicU64::new(1) };
    let reduced = Reduced::new(stage.store.clone(), Arc::new(failing), counts.clone());
    assert!(wait(reduced.refresh("r")).is_err());
    assert_eq!(state(stage.kept("r", 1)), Some((10_000, 10_000)));
    counts.folded();
    assert_eq!(wait(stage.reduced(&counts).refresh("r")).unwrap(), 2_000);
    assert_eq!(Value::from(12_000), stage.kept("r", 1).unwrap().state);
}

/// On the engine: states are stored next to their runs, a new version recomputes them, and a deleted run has
/// none.
#[test]
fn the_engine_keeps_states_beside_its_runs() {
    let db = Database::memory().unwrap();
    let keeper = Arc::new(EngineKeeper::on(&db, "main"));
    let reduced = |counts: &Arc<Counts>| {
        Reduced::new(Arc::new(db.runs()), keeper.clone(), counts.clone() as Arc<dyn AnyReducer>)
    };
    for run in ["a", "b"] {
        let events = (0..600).map(|n| NewEvent::new(run, "Tick").with_key(&format!("{n}")));
        db.runs().append_batch(events.collect()).unwrap();
    }
    let first = Counts::of(1);
    let second = Counts::of(2);
    let made = wait(reduced(&first).snapshot("a")).unwrap().unwrap();
    assert_eq!((made.seq, made.state, first.folded()), (600, 600.into(), 600));
    // Stored events are not folded again, and the state is up to date.
    db.runs().append(NewEvent::new("a", "Tick").with_key("last")).unwrap();
    let made = wait(reduced(&first).snapshot("a")).unwrap().unwrap();
    assert_eq!((made.seq, made.state, first.folded()), (601, 601.into(), 1));
    // A reducer of another version does not use stored states: all runs are recomputed.
    let reprojection = Reprojection::new(reduced(&second));
    let done = wait(reprojection.run()).unwrap();
    assert_eq!((done.runs_done, done.runs_total, done.events_done, done.done), (2, 2, 1201, true));
    second.folded();
    let made = wait(reduced(&second).snapshot("a")).unwrap().unwrap();
    assert_eq!((made.state, second.folded()), (1202.into(), 0));
    // A panic of a reducer becomes an error, and the log does not change.
    db.runs().append(NewEvent::new("b", "Boom").with_key("boom")).unwrap();
    let error = wait(reduced(&second).snapshot("b")).unwrap_err();
    assert!(error.message().contains("it went boom"), "{error}");
    assert_eq!(db.runs().get("b").unwrap().unwrap().last_event_seq, 601);
    db.runs().delete("a").unwrap();
    assert_eq!(wait(keeper.kept("a", "counts", 2)).unwrap(), None);
}

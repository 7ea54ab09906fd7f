//! User reducers: up-to-date states, panics, and reprojection.

mod monotone;

use mainstay::Database;
use mainstay_model::{
    Answering, CanonicalEvent, ErrorKind, FetchOptions, KeptState, NewEvent, RunSnapshot, RunStore,
    Value, from_value,
};
use mainstay_runs::{
    AnyReducer, DefaultReducer, EngineStateStore, GappyStore, ManualClock, MemoryStateStore,
    Progress, Reducer, ReducerStateStore, ReducerView, Reprojection, STORE_AFTER_EVENTS,
};
use monotone::MonotoneStore;
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

struct Fixture {
    gappy: Arc<GappyStore>,
    store: Arc<MonotoneStore>,
    states: Arc<MemoryStateStore>,
}

impl Fixture {
    fn new() -> Fixture {
        let gappy = Arc::new(GappyStore::new(ManualClock::at_us(1_700_000_000_000_000)));
        let store = Arc::new(MonotoneStore(gappy.clone()));
        Fixture { gappy, store, states: Arc::default() }
    }

    fn append(&self, run: &str, event_type: &str, count: u64) {
        let first = wait(self.gappy.get(run)).unwrap().map_or(0, |run| run.last_event_seq);
        for n in first..first + count {
            let event = NewEvent::new(run, event_type).with_key(&n.to_string());
            wait(self.store.append_event(event)).unwrap();
        }
    }

    fn view(&self, reducer: &Arc<Counts>) -> ReducerView {
        ReducerView::new(self.store.clone(), self.states.clone(), reducer.clone())
    }

    fn stored_state(&self, run: &str, version: u64) -> Option<KeptState> {
        wait(self.states.load(run, "counts", version)).unwrap()
    }
}

fn state(state: Option<KeptState>) -> Option<(u64, i64)> {
    state.map(|kept| (kept.seq, kept.state.as_i64().unwrap()))
}

#[test]
fn a_state_is_folded_forward_on_read_and_kept_when_it_is_old() {
    let fixture = Fixture::new();
    let counts = Counts::of(1);
    let view = fixture.view(&counts);
    assert_eq!(wait(view.snapshot("r")).unwrap(), None);
    fixture.append("r", "Tick", STORE_AFTER_EVENTS);
    assert_eq!(state(wait(view.snapshot("r")).unwrap()), Some((256, 256)));
    assert_eq!(fixture.stored_state("r", 1), None, "256 events are not many");
    fixture.append("r", "Tick", 1);
    assert_eq!(state(wait(view.snapshot("r")).unwrap()), Some((257, 257)));
    assert_eq!(state(fixture.stored_state("r", 1)), Some((257, 257)));
    counts.folded();
    fixture.append("r", "Tick", 3);
    assert_eq!(state(wait(view.snapshot("r")).unwrap()), Some((260, 260)));
    assert_eq!(counts.folded(), 3, "the rest was kept");
}

#[test]
fn pages_that_are_too_large_are_taken_in_smaller_ones() {
    let fixture = Fixture::new();
    let counts = Counts::of(1);
    fixture.append("r", "Tick", 300);
    let one = wait(fixture.gappy.fetch_events("r", FetchOptions::default().limit(1))).unwrap();
    fixture.gappy.limit_answers(50 * one[0].weight_bytes());
    assert_eq!(state(wait(fixture.view(&counts).snapshot("r")).unwrap()), Some((300, 300)));
    let all = Reprojection::new(fixture.view(&Counts::of(2)));
    assert_eq!(wait(all.run()).unwrap().events_done, 300);
}

#[test]
fn a_state_of_another_version_is_not_used() {
    let fixture = Fixture::new();
    let counts = Counts::of(1);
    fixture.append("r", "Tick", 300);
    wait(fixture.view(&counts).snapshot("r")).unwrap();
    let next = Counts::of(2);
    let snapshot = wait(fixture.view(&next).snapshot("r")).unwrap();
    assert_eq!(state(snapshot), Some((300, 600)));
}

#[test]
fn a_state_of_a_run_that_is_gone_is_not_used() {
    let fixture = Fixture::new();
    let counts = Counts::of(1);
    fixture.append("r", "Tick", 300);
    wait(fixture.view(&counts).refresh("r")).unwrap();
    wait(fixture.store.delete_run("r")).unwrap();
    assert_eq!(wait(fixture.view(&counts).snapshot("r")).unwrap(), None);
}

#[test]
fn where_events_may_come_late_nothing_is_kept() {
    let fixture = Fixture::new();
    let counts = Counts::of(1);
    fixture.append("r", "Tick", 1);
    fixture.gappy.hide_next("r");
    fixture.append("r", "Tick", 1);
    fixture.gappy.make_visible("r", 2);
    fixture.append("r", "Tick", 400);
    fixture.gappy.hide_next("r");
    let event = NewEvent::new("r", "Tick").with_key("late");
    let late = wait(fixture.gappy.append_event(event)).unwrap().run_seq;
    let event = NewEvent::new("r", "Tick").with_key("behind it");
    wait(fixture.gappy.append_event(event)).unwrap();
    let view = ReducerView::new(fixture.gappy.clone(), fixture.states.clone(), counts.clone());
    assert_eq!(state(wait(view.snapshot("r")).unwrap()), Some((404, 403)));
    fixture.gappy.make_visible("r", late);
    assert_eq!(state(wait(view.snapshot("r")).unwrap()), Some((404, 404)));
}

#[test]
fn a_panic_is_an_error_that_names_run_event_and_reducer() {
    let fixture = Fixture::new();
    let counts = Counts::of(3);
    fixture.append("r", "Tick", 1);
    fixture.append("r", "Boom", 1);
    fixture.append("r", "Tick", 1);
    let error = wait(fixture.view(&counts).snapshot("r")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    for part in ["`counts`", "version 3", "event 2", "Boom", "`r`", "it went boom"] {
        assert!(error.message().contains(part), "{part}: {error}");
    }
    let events = wait(fixture.store.fetch_events("r", FetchOptions::default())).unwrap();
    assert_eq!(events.len(), 3, "the log is as it was");
    let error = AnyReducer::initial(&*counts, "unheard").unwrap_err();
    assert!(error.message().contains("`unheard`"), "{error}");
}

#[test]
fn the_reducer_that_all_runs_have_is_one_of_them() {
    let fixture = Fixture::new();
    for (key, event_type) in ["RunStarted", "RunPaused", "RunStarted"].iter().enumerate() {
        let event = NewEvent::new("r", event_type).with_key(&key.to_string());
        wait(fixture.store.append_event(event)).unwrap();
    }
    let reducer = Arc::new(DefaultReducer);
    let view = ReducerView::new(fixture.store.clone(), fixture.states.clone(), reducer);
    let state = wait(view.snapshot("r")).unwrap().unwrap().state;
    let snapshot: RunSnapshot = from_value(state).unwrap();
    assert_eq!(Some(snapshot), wait(fixture.store.project_snapshot("r")).unwrap());
}

#[test]
fn all_runs_are_projected_anew_with_progress() {
    let fixture = Fixture::new();
    let counts = Counts::of(2);
    (0..5).for_each(|n| fixture.append(&format!("r{n}"), "Tick", n + 1));
    fixture.append("bad", "Boom", 1);
    let again = Reprojection::new(fixture.view(&counts));
    let progress = wait(again.run()).unwrap();
    assert_eq!((progress.runs_done, progress.runs_total), (6, 6));
    assert_eq!((progress.events_done, progress.runs_failed), (15, 1));
    assert_eq!(progress.failures[0].run_id, "bad");
    assert!(progress.done && progress == again.progress());
    assert_eq!(state(fixture.stored_state("r4", 2)), Some((5, 10)));
    assert_eq!(fixture.stored_state("bad", 2), None);
    // A second run has nothing to fold.
    counts.folded();
    wait(Reprojection::new(fixture.view(&counts)).run()).unwrap();
    assert_eq!(counts.folded(), 0);
}

/// A keeper that fails after this many stored states.
struct FailingStateStore {
    inner: Arc<MemoryStateStore>,
    left: AtomicU64,
}

impl ReducerStateStore for FailingStateStore {
    fn load<'a>(
        &'a self,
        run: &'a str,
        reducer: &'a str,
        version: u64,
    ) -> Answering<'a, Option<KeptState>> {
        self.inner.load(run, reducer, version)
    }

    fn store<'a>(
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
        self.inner.store(run, reducer, version, state)
    }
}

#[test]
fn what_was_interrupted_goes_on_where_it_was() {
    let fixture = Fixture::new();
    let counts = Counts::of(2);
    (0..4).for_each(|n| fixture.append(&format!("r{n}"), "Tick", 10));
    let failing = FailingStateStore { inner: fixture.states.clone(), left: AtomicU64::new(2) };
    let view = ReducerView::new(fixture.store.clone(), Arc::new(failing), counts.clone());
    let first = Reprojection::new(view);
    assert_eq!(wait(first.run()).unwrap_err().kind(), ErrorKind::ReadOnly);
    let text = serde_json::to_string(&first.progress()).unwrap();
    let progress: Progress = serde_json::from_str(&text).unwrap();
    assert_eq!((progress.runs_done, progress.runs_total, progress.done), (2, 4, false));
    counts.folded();
    let progress = wait(Reprojection::resume(fixture.view(&counts), progress).run()).unwrap();
    assert_eq!((progress.runs_done, progress.events_done, progress.done), (4, 40, true));
    assert_eq!(counts.folded(), 20, "two runs were done");
}

#[test]
fn a_long_run_is_kept_on_the_way() {
    let fixture = Fixture::new();
    let counts = Counts::of(1);
    let events: Vec<NewEvent> =
        (0..12_000).map(|n| NewEvent::new("r", "Tick").with_key(&format!("k{n}"))).collect();
    wait(fixture.gappy.append_batch(events)).unwrap();
    let failing = FailingStateStore { inner: fixture.states.clone(), left: AtomicU64::new(1) };
    let view = ReducerView::new(fixture.store.clone(), Arc::new(failing), counts.clone());
    assert!(wait(view.refresh("r")).is_err());
    assert_eq!(state(fixture.stored_state("r", 1)), Some((10_000, 10_000)));
    counts.folded();
    assert_eq!(wait(fixture.view(&counts).refresh("r")).unwrap(), 2_000);
    assert_eq!(Value::from(12_000), fixture.stored_state("r", 1).unwrap().state);
}

/// On the engine: states are stored next to their runs, a new version recomputes them, and a deleted run has
/// none.
#[test]
fn the_engine_keeps_states_beside_its_runs() {
    let db = Database::memory().unwrap();
    let states = Arc::new(EngineStateStore::on(&db, "main"));
    let view = |counts: &Arc<Counts>| {
        ReducerView::new(Arc::new(db.runs()), states.clone(), counts.clone() as Arc<dyn AnyReducer>)
    };
    for run in ["a", "b"] {
        let events = (0..600).map(|n| NewEvent::new(run, "Tick").with_key(&format!("{n}")));
        db.runs().append_batch(events.collect()).unwrap();
    }
    let first = Counts::of(1);
    let second = Counts::of(2);
    let made = wait(view(&first).snapshot("a")).unwrap().unwrap();
    assert_eq!((made.seq, made.state, first.folded()), (600, 600.into(), 600));
    // Stored events are not folded again, and the state is up to date.
    db.runs().append(NewEvent::new("a", "Tick").with_key("last")).unwrap();
    let made = wait(view(&first).snapshot("a")).unwrap().unwrap();
    assert_eq!((made.seq, made.state, first.folded()), (601, 601.into(), 1));
    // A reducer of another version does not use stored states: all runs are recomputed.
    let reprojection = Reprojection::new(view(&second));
    let done = wait(reprojection.run()).unwrap();
    assert_eq!((done.runs_done, done.runs_total, done.events_done, done.done), (2, 2, 1201, true));
    second.folded();
    let made = wait(view(&second).snapshot("a")).unwrap().unwrap();
    assert_eq!((made.state, second.folded()), (1202.into(), 0));
    // A panic of a reducer becomes an error, and the log does not change.
    db.runs().append(NewEvent::new("b", "Boom").with_key("boom")).unwrap();
    let error = wait(view(&second).snapshot("b")).unwrap_err();
    assert!(error.message().contains("it went boom"), "{error}");
    assert_eq!(db.runs().get("b").unwrap().unwrap().last_event_seq, 601);
    db.runs().delete("a").unwrap();
    assert_eq!(wait(states.load("a", "counts", 2)).unwrap(), None);
}

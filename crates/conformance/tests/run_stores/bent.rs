//! A store before another that can be told to do something else.

use super::gappy::Gappy;
use mainstay_conformance::RunWorld;
use mainstay_model::{
    Answering, Appended, CanonicalEvent, FetchOptions, NewEvent, RunCapabilities, RunFilter,
    RunInfo, RunPage, RunSnapshot, RunStore, Value,
};
use std::sync::Arc;

/// What a store does otherwise than the one behind it.
pub trait Bend: Send + Sync {
    /// What it says that it can do.
    fn capabilities(&self, inner: RunCapabilities) -> RunCapabilities {
        inner
    }

    /// Appends.
    fn append<'a>(&'a self, inner: &'a dyn RunStore, event: NewEvent) -> Answering<'a, Appended> {
        inner.append_event(event)
    }

    /// Fetches.
    fn fetch<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        run: &'a str,
        options: FetchOptions,
    ) -> Answering<'a, Vec<CanonicalEvent>> {
        inner.fetch_events(run, options)
    }

    /// Tells a kept snapshot.
    fn snapshot<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        run: &'a str,
    ) -> Answering<'a, Option<RunSnapshot>> {
        inner.get_snapshot(run)
    }

    /// Appends several.
    fn batch<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        events: Vec<NewEvent>,
    ) -> Answering<'a, Vec<Appended>> {
        inner.append_batch(events)
    }

    /// Appends on a sequence.
    fn expecting<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        event: NewEvent,
        expected_seq: u64,
    ) -> Answering<'a, Appended> {
        inner.append_expecting(event, expected_seq)
    }

    /// Lists.
    fn list<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        filter: &'a RunFilter,
        after: Option<&'a str>,
        limit: usize,
    ) -> Answering<'a, RunPage> {
        inner.list(filter, after, limit)
    }

    /// Deletes.
    fn delete<'a>(&'a self, inner: &'a dyn RunStore, run: &'a str) -> Answering<'a, bool> {
        inner.delete_run(run)
    }

    /// Restores.
    fn restore<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        events: Vec<CanonicalEvent>,
    ) -> Answering<'a, ()> {
        inner.restore(events)
    }

    /// Waits.
    fn wait_for<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        run: &'a str,
        after_seq: u64,
        wait_ms: u64,
    ) -> Answering<'a, bool> {
        inner.wait_for(run, after_seq, wait_ms)
    }

    /// Makes a run.
    fn bootstrap<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        run: &'a str,
        metadata: Value,
        events: Vec<NewEvent>,
    ) -> Answering<'a, Vec<Appended>> {
        inner.bootstrap(run, metadata, events)
    }

    /// Tells whether it is there.
    fn ping<'a>(&'a self, inner: &'a dyn RunStore) -> Answering<'a, bool> {
        inner.ping()
    }
}

/// A store that was bent.
pub struct Bent<B> {
    inner: Arc<dyn RunStore>,
    bend: B,
}

/// A store with something before it.
pub struct Before {
    world: Gappy,
    store: Arc<dyn RunStore>,
}

impl Before {
    /// Puts something before a store that shows no gaps.
    pub fn new<S: RunStore + 'static>(make: impl FnOnce(Arc<dyn RunStore>) -> S) -> Before {
        Before::over(Gappy::without_habits(), make)
    }

    /// Puts something before a store.
    pub fn over<S: RunStore + 'static>(
        world: Gappy,
        make: impl FnOnce(Arc<dyn RunStore>) -> S,
    ) -> Before {
        let store = Arc::new(make(world.store()));
        Before { world, store }
    }

    /// Bends a store.
    pub fn bent(bend: impl Bend + 'static) -> Before {
        Before::new(|inner| Bent { inner, bend })
    }

    /// Bends a store that burns numbers.
    pub fn bent_gappy(bend: impl Bend + 'static) -> Before {
        Before::over(Gappy::with_habits(), |inner| Bent { inner, bend })
    }
}

impl RunWorld for Before {
    fn store(&self) -> Arc<dyn RunStore> {
        self.store.clone()
    }

    fn pass_ms(&self, ms: u64) {
        self.world.pass_ms(ms);
    }

    fn settle(&self) {
        self.world.settle();
    }

    fn has_clock_in_hand(&self) -> bool {
        true
    }
}

impl<B: Bend> RunStore for Bent<B> {
    fn capabilities(&self) -> RunCapabilities {
        self.bend.capabilities(self.inner.capabilities())
    }

    fn append_event(&self, event: NewEvent) -> Answering<'_, Appended> {
        self.bend.append(&*self.inner, event)
    }

    fn fetch_events<'a>(
        &'a self,
        run: &'a str,
        options: FetchOptions,
    ) -> Answering<'a, Vec<CanonicalEvent>> {
        self.bend.fetch(&*self.inner, run, options)
    }

    fn ping(&self) -> Answering<'_, bool> {
        self.bend.ping(&*self.inner)
    }

    fn close(&self) -> Answering<'_, ()> {
        self.inner.close()
    }

    fn get_snapshot<'a>(&'a self, run: &'a str) -> Answering<'a, Option<RunSnapshot>> {
        self.bend.snapshot(&*self.inner, run)
    }

    fn get<'a>(&'a self, run: &'a str) -> Answering<'a, Option<RunInfo>> {
        self.inner.get(run)
    }

    fn append_batch(&self, events: Vec<NewEvent>) -> Answering<'_, Vec<Appended>> {
        self.bend.batch(&*self.inner, events)
    }

    fn append_expecting(&self, event: NewEvent, expected_seq: u64) -> Answering<'_, Appended> {
        self.bend.expecting(&*self.inner, event, expected_seq)
    }

    fn bootstrap<'a>(
        &'a self,
        run: &'a str,
        metadata: Value,
        events: Vec<NewEvent>,
    ) -> Answering<'a, Vec<Appended>> {
        self.bend.bootstrap(&*self.inner, run, metadata, events)
    }

    fn list<'a>(
        &'a self,
        filter: &'a RunFilter,
        after: Option<&'a str>,
        limit: usize,
    ) -> Answering<'a, RunPage> {
        self.bend.list(&*self.inner, filter, after, limit)
    }

    fn delete_run<'a>(&'a self, run: &'a str) -> Answering<'a, bool> {
        self.bend.delete(&*self.inner, run)
    }

    fn restore(&self, events: Vec<CanonicalEvent>) -> Answering<'_, ()> {
        self.bend.restore(&*self.inner, events)
    }

    fn wait_for<'a>(&'a self, run: &'a str, after_seq: u64, wait_ms: u64) -> Answering<'a, bool> {
        self.bend.wait_for(&*self.inner, run, after_seq, wait_ms)
    }
}

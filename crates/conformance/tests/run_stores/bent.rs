//! Fault injection for run stores: a wrapper that overrides single operations of a correct store.

use super::gappy::Gappy;
use mainstay_conformance::RunWorld;
use mainstay_model::{
    Answering, Appended, CanonicalEvent, FetchOptions, NewEvent, RunCapabilities, RunFilter,
    RunInfo, RunPage, RunSnapshot, RunStore, Value,
};
use std::sync::Arc;

/// A fault: each method can override an operation of the inner store.
pub trait Bend: Send + Sync {
    fn capabilities(&self, inner: RunCapabilities) -> RunCapabilities {
        inner
    }

    fn append<'a>(&'a self, inner: &'a dyn RunStore, event: NewEvent) -> Answering<'a, Appended> {
        inner.append_event(event)
    }

    fn fetch<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        run: &'a str,
        options: FetchOptions,
    ) -> Answering<'a, Vec<CanonicalEvent>> {
        inner.fetch_events(run, options)
    }

    fn snapshot<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        run: &'a str,
    ) -> Answering<'a, Option<RunSnapshot>> {
        inner.get_snapshot(run)
    }

    fn batch<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        events: Vec<NewEvent>,
    ) -> Answering<'a, Vec<Appended>> {
        inner.append_batch(events)
    }

    fn expecting<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        event: NewEvent,
        expected_seq: u64,
    ) -> Answering<'a, Appended> {
        inner.append_expecting(event, expected_seq)
    }

    fn list<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        filter: &'a RunFilter,
        after: Option<&'a str>,
        limit: usize,
    ) -> Answering<'a, RunPage> {
        inner.list(filter, after, limit)
    }

    fn delete<'a>(&'a self, inner: &'a dyn RunStore, run: &'a str) -> Answering<'a, bool> {
        inner.delete_run(run)
    }

    fn restore<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        events: Vec<CanonicalEvent>,
    ) -> Answering<'a, ()> {
        inner.restore(events)
    }

    fn wait_for<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        run: &'a str,
        after_seq: u64,
        wait_ms: u64,
    ) -> Answering<'a, bool> {
        inner.wait_for(run, after_seq, wait_ms)
    }

    fn bootstrap<'a>(
        &'a self,
        inner: &'a dyn RunStore,
        run: &'a str,
        metadata: Value,
        events: Vec<NewEvent>,
    ) -> Answering<'a, Vec<Appended>> {
        inner.bootstrap(run, metadata, events)
    }

    fn ping<'a>(&'a self, inner: &'a dyn RunStore) -> Answering<'a, bool> {
        inner.ping()
    }
}

/// A store with a fault.
pub struct Bent<B> {
    inner: Arc<dyn RunStore>,
    bend: B,
}

/// A world with a wrapped store.
pub struct Before {
    world: Gappy,
    store: Arc<dyn RunStore>,
}

impl Before {
    /// Wraps a store without gaps.
    pub fn new<S: RunStore + 'static>(make: impl FnOnce(Arc<dyn RunStore>) -> S) -> Before {
        Before::over(Gappy::without_habits(), make)
    }

    /// Wraps the store of a world.
    pub fn over<S: RunStore + 'static>(
        world: Gappy,
        make: impl FnOnce(Arc<dyn RunStore>) -> S,
    ) -> Before {
        let store = Arc::new(make(world.store()));
        Before { world, store }
    }

    /// Adds a fault to a store without gaps.
    pub fn bent(bend: impl Bend + 'static) -> Before {
        Before::new(|inner| Bent { inner, bend })
    }

    /// Adds a fault to a store with gaps in its sequence.
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

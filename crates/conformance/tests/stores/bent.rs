//! Fault injection for record stores: a wrapper that overrides single operations of the engine.

use mainstay_conformance::{StoreWorld, World};
use mainstay_model::{
    Answering, Capabilities, Condition, Field, IndexInfo, Name, Record, RecordHistoryEntry,
    RecordPage, RecordPick, RecordStore, RecordWrite, Ttl, Where,
};
use std::sync::Arc;

/// A fault: each method can override an operation of the inner store.
pub trait Bend: Send + Sync {
    fn capabilities(&self, inner: Capabilities) -> Capabilities {
        inner
    }

    fn get<'a>(
        &'a self,
        inner: &'a dyn RecordStore,
        key: &'a Name,
        wanted: Option<&'a [Field]>,
    ) -> Answering<'a, Option<Record>> {
        inner.get_some(key, wanted)
    }

    fn write<'a>(
        &'a self,
        inner: &'a dyn RecordStore,
        write: RecordWrite,
    ) -> Answering<'a, Option<u64>> {
        inner.write(write)
    }

    fn delete<'a>(
        &'a self,
        inner: &'a dyn RecordStore,
        key: &'a str,
        when: Vec<Condition>,
    ) -> Answering<'a, bool> {
        inner.delete_when(key, when)
    }

    fn expire<'a>(
        &'a self,
        inner: &'a dyn RecordStore,
        key: &'a str,
        ttl: Ttl,
    ) -> Answering<'a, bool> {
        inner.expire(key, ttl)
    }

    fn scan<'a>(&'a self, inner: &'a dyn RecordStore, scan: Scan<'a>) -> Answering<'a, RecordPage> {
        inner.scan(scan.prefix, scan.filters, scan.after, scan.limit)
    }

    fn ping<'a>(&'a self, inner: &'a dyn RecordStore) -> Answering<'a, bool> {
        inner.ping()
    }
}

/// The arguments of a scan.
#[derive(Clone, Copy)]
pub struct Scan<'a> {
    pub prefix: &'a str,
    pub filters: &'a [Where],
    pub after: Option<&'a str>,
    pub limit: usize,
}

/// A store with a fault.
pub struct Bent<B> {
    inner: Arc<dyn RecordStore>,
    bend: B,
}

/// The engine in memory with a wrapper.
pub struct Before {
    world: World,
    store: Arc<dyn RecordStore>,
}

impl Before {
    /// Wraps the engine.
    pub fn new<S: RecordStore + 'static>(make: impl FnOnce(Arc<dyn RecordStore>) -> S) -> Before {
        let world = World::memory();
        let store = Arc::new(make(world.store()));
        Before { world, store }
    }

    /// Adds a fault to the engine.
    pub fn bent(bend: impl Bend + 'static) -> Before {
        Before::new(|inner| Bent { inner, bend })
    }
}

impl StoreWorld for Before {
    fn store(&self) -> Arc<dyn RecordStore> {
        self.store.clone()
    }

    fn pass_ms(&self, ms: u64) {
        StoreWorld::pass_ms(&self.world, ms);
    }

    fn has_clock_in_hand(&self) -> bool {
        true
    }
}

impl<B: Bend> RecordStore for Bent<B> {
    fn capabilities(&self) -> Capabilities {
        self.bend.capabilities(self.inner.capabilities())
    }

    fn get_some<'a>(
        &'a self,
        key: &'a Name,
        wanted: Option<&'a [Field]>,
    ) -> Answering<'a, Option<Record>> {
        self.bend.get(&*self.inner, key, wanted)
    }

    fn write<'a>(&'a self, write: RecordWrite) -> Answering<'a, Option<u64>> {
        self.bend.write(&*self.inner, write)
    }

    fn delete_when<'a>(&'a self, key: &'a str, when: Vec<Condition>) -> Answering<'a, bool> {
        self.bend.delete(&*self.inner, key, when)
    }

    fn expire<'a>(&'a self, key: &'a str, ttl: Ttl) -> Answering<'a, bool> {
        self.bend.expire(&*self.inner, key, ttl)
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        filters: &'a [Where],
        after: Option<&'a str>,
        limit: usize,
    ) -> Answering<'a, RecordPage> {
        self.bend.scan(&*self.inner, Scan { prefix, filters, after, limit })
    }

    fn ping(&self) -> Answering<'_, bool> {
        self.bend.ping(&*self.inner)
    }

    fn close(&self) -> Answering<'_, ()> {
        self.inner.close()
    }

    fn pick<'a>(&'a self, pick: RecordPick) -> Answering<'a, Option<(String, Record)>> {
        self.inner.pick(pick)
    }

    fn history<'a>(
        &'a self,
        key: &'a str,
        limit: usize,
        before: Option<u64>,
    ) -> Answering<'a, Vec<RecordHistoryEntry>> {
        self.inner.history(key, limit, before)
    }

    fn add_index<'a>(&'a self, prefix: &'a str, fields: &'a [Field]) -> Answering<'a, u32> {
        self.inner.add_index(prefix, fields)
    }

    fn drop_index(&self, id: u32) -> Answering<'_, bool> {
        self.inner.drop_index(id)
    }

    fn indexes(&self) -> Answering<'_, Vec<IndexInfo>> {
        self.inner.indexes()
    }
}

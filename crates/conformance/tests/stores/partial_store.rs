//! Record stores with fewer capabilities than the engine.
//!
//! They are written like adapters: the required methods, each with a check of the capabilities.

use mainstay_conformance::TestDb;
use mainstay_conformance::suite::{LIFE_MS, Wrapped};
use mainstay_model::{
    Answering, Capabilities, Condition, Conditions, Counters, Field, Lifetimes, Name, Record,
    RecordPage, RecordStore, RecordWrite, Ttl, Where,
};
use std::sync::Arc;

/// A store like a NATS key-value bucket: one time to live for all records, and conditions only on whole
/// records.
pub fn bucket() -> Wrapped<TestDb, dyn RecordStore> {
    let can = Capabilities {
        lifetimes: Lifetimes::PerStore { ttl_ms: LIFE_MS },
        conditions: Conditions::WholeRecord,
        counters: Counters::Lasting,
        ..Capabilities::none("bucket")
    };
    partial(can)
}

/// A store without any optional capability.
pub fn plain() -> Wrapped<TestDb, dyn RecordStore> {
    partial(Capabilities::none("plain"))
}

fn partial(can: Capabilities) -> Wrapped<TestDb, dyn RecordStore> {
    Wrapped::new(TestDb::memory(), |inner| Arc::new(PartialStore { inner, can }))
}

struct PartialStore {
    inner: Arc<dyn RecordStore>,
    can: Capabilities,
}

impl RecordStore for PartialStore {
    fn capabilities(&self) -> Capabilities {
        self.can
    }

    fn get_some<'a>(
        &'a self,
        key: &'a Name,
        wanted: Option<&'a [Field]>,
    ) -> Answering<'a, Option<Record>> {
        self.inner.get_some(key, wanted)
    }

    fn write<'a>(&'a self, mut write: RecordWrite) -> Answering<'a, Option<u64>> {
        Box::pin(async move {
            self.can.check_write(&write)?;
            if let Lifetimes::PerStore { ttl_ms } = self.can.lifetimes {
                write.ttl = Ttl::Millis(ttl_ms);
            }
            self.inner.write(write).await
        })
    }

    fn delete_when<'a>(&'a self, key: &'a str, when: Vec<Condition>) -> Answering<'a, bool> {
        Box::pin(async move {
            self.can.check_conditions(&when)?;
            self.inner.delete_when(key, when).await
        })
    }

    fn expire<'a>(&'a self, key: &'a str, ttl: Ttl) -> Answering<'a, bool> {
        Box::pin(async move {
            self.can.check_ttl(ttl)?;
            self.inner.expire(key, ttl).await
        })
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        filters: &'a [Where],
        after: Option<&'a str>,
        limit: usize,
    ) -> Answering<'a, RecordPage> {
        self.inner.scan(prefix, filters, after, limit)
    }

    fn ping(&self) -> Answering<'_, bool> {
        self.inner.ping()
    }

    fn close(&self) -> Answering<'_, ()> {
        self.inner.close()
    }
}

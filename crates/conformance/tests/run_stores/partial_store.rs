//! A run store without any optional capability, written like an adapter: it implements only the required methods.

use super::gappy::Gappy;
use mainstay_conformance::suite::Wrapped;
use mainstay_model::{
    Answering, Appended, CanonicalEvent, FetchOptions, NewEvent, RunCapabilities, RunStore,
};
use std::sync::Arc;

pub fn plain() -> Wrapped<Gappy, dyn RunStore> {
    Wrapped::new(Gappy::without_habits(), |inner| Arc::new(Plain { inner }))
}

struct Plain {
    inner: Arc<dyn RunStore>,
}

impl RunStore for Plain {
    fn capabilities(&self) -> RunCapabilities {
        let payload_limit_bytes = self.inner.capabilities().payload_limit_bytes;
        RunCapabilities { payload_limit_bytes, ..RunCapabilities::none("plain") }
    }

    fn append_event(&self, event: NewEvent) -> Answering<'_, Appended> {
        self.inner.append_event(event)
    }

    fn fetch_events<'a>(
        &'a self,
        run: &'a str,
        options: FetchOptions,
    ) -> Answering<'a, Vec<CanonicalEvent>> {
        self.inner.fetch_events(run, options)
    }

    fn ping(&self) -> Answering<'_, bool> {
        self.inner.ping()
    }

    fn close(&self) -> Answering<'_, ()> {
        self.inner.close()
    }
}

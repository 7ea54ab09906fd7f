//! A gappy store that claims to be monotone, which is true as long as no event is held back.

use mainstay_model::{
    Answering, Appended, CanonicalEvent, FetchOptions, NewEvent, RunCapabilities, RunFilter,
    RunPage, RunStore,
};
use mainstay_runs::GappyStore;
use std::sync::Arc;

/// Claims that no event is late, so that gaps are never waited for.
pub struct MonotoneStore(pub Arc<GappyStore>);

impl RunStore for MonotoneStore {
    fn capabilities(&self) -> RunCapabilities {
        RunCapabilities { monotone: true, ..self.0.capabilities() }
    }

    fn append_event(&self, event: NewEvent) -> Answering<'_, Appended> {
        self.0.append_event(event)
    }

    fn fetch_events<'a>(
        &'a self,
        run: &'a str,
        options: FetchOptions,
    ) -> Answering<'a, Vec<CanonicalEvent>> {
        self.0.fetch_events(run, options)
    }

    fn ping(&self) -> Answering<'_, bool> {
        self.0.ping()
    }

    fn close(&self) -> Answering<'_, ()> {
        self.0.close()
    }

    fn list<'a>(
        &'a self,
        filter: &'a RunFilter,
        after: Option<&'a str>,
        limit: usize,
    ) -> Answering<'a, RunPage> {
        self.0.list(filter, after, limit)
    }

    fn delete_run<'a>(&'a self, run: &'a str) -> Answering<'a, bool> {
        self.0.delete_run(run)
    }
}

//! Metrics of long work: how much waits, how much runs, and how long it took.

use super::Shared;
use super::connection::Connection;
use super::session::Job;
use super::tally::{Figures, count, uncount};
use crate::telemetry::spans;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A gauge guard: counts as long as it lives, also when work panics or is never executed.
pub struct Counted {
    shared: Arc<Shared>,
    figure: fn(&Figures) -> &AtomicU64,
}

impl Counted {
    /// Increments the gauge.
    pub fn new(shared: &Arc<Shared>, figure: fn(&Figures) -> &AtomicU64) -> Counted {
        count(figure(&shared.figures));
        Counted { shared: shared.clone(), figure }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        uncount((self.figure)(&self.shared.figures));
    }
}

/// Wraps work so that its waiting, running and duration are measured.
pub fn measured(shared: &Arc<Shared>, connection: &Connection, job: Job) -> Job {
    let session = &connection.session;
    let told = connection.told();
    let group = session.group();
    let client = session.client();
    let name = session.last.map_or("unknown", |spec| spec.name);
    let waits = Counted::new(shared, |figures| &figures.work_waiting);
    let shared = shared.clone();
    let is_given_up = connection.is_given_up();
    Box::new(move || {
        drop(waits);
        let _runs = Counted::new(&shared, |figures| &figures.work_running);
        let began_us = shared.ticks_us();
        let reply = spans::work(name).in_scope(|| mainstay::until_stopped(is_given_up, job));
        let took_us = shared.ticks_us().saturating_sub(began_us);
        shared.figures.worked(group, took_us);
        if shared.slow_log.is_slow(took_us) {
            shared.slow_log.note(std::iter::once(told), &client, shared.now(), took_us);
        }
        reply
    })
}

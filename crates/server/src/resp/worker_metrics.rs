//! Metrics of long work: how much waits, how much runs, and how long it took.

use super::Shared;
use super::connection::Connection;
use super::connection_state::WorkerJob;
use super::counters::{Metrics, decrement, increment};
use crate::telemetry::spans;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A gauge guard: counts as long as it lives, also when work panics or is never executed.
pub struct GaugeGuard {
    shared: Arc<Shared>,
    gauge: fn(&Metrics) -> &AtomicU64,
}

impl GaugeGuard {
    /// Increments the gauge.
    pub fn new(shared: &Arc<Shared>, gauge: fn(&Metrics) -> &AtomicU64) -> GaugeGuard {
        increment(gauge(&shared.metrics));
        GaugeGuard { shared: shared.clone(), gauge }
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        decrement((self.gauge)(&self.shared.metrics));
    }
}

/// Wraps work so that its waiting, running and duration are measured.
pub fn measure_job(shared: &Arc<Shared>, connection: &Connection, job: WorkerJob) -> WorkerJob {
    let state = &connection.state;
    let summary = connection.summary();
    let group = state.group();
    let client = state.client();
    let name = state.last_command.map_or("unknown", |spec| spec.name);
    let waits = GaugeGuard::new(shared, |metrics| &metrics.work_waiting);
    let shared = shared.clone();
    let is_abandoned = connection.abandon_check();
    Box::new(move || {
        drop(waits);
        let _runs = GaugeGuard::new(&shared, |metrics| &metrics.work_running);
        let began_us = shared.ticks_us();
        let reply = spans::work(name).in_scope(|| mainstay::until_stopped(is_abandoned, job));
        let took_us = shared.ticks_us().saturating_sub(began_us);
        shared.metrics.record_work(group, took_us);
        if shared.slow_log.is_slow(took_us) {
            shared.slow_log.log(std::iter::once(summary), &client, shared.now(), took_us);
        }
        reply
    })
}

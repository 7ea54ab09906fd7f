//! Reads of runs: events, snapshots, lists.

use super::fold;
use super::head::{self, RunHead};
use crate::key::entry::{self, EntryHeader};
use crate::key::keyspace::{self, ALERTS, EVENT_KEYS, EVENTS, RUNS, STATES};
use crate::key::run_keys;
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use mainstay_model::codec::{get_varint, put_varint};
use mainstay_model::limits::check_page;
use mainstay_model::{
    CanonicalEvent, Code, Error, KeptState, Name, Result, Revision, RunAlert, RunFilter, RunInfo,
    RunPage, RunSnapshot, Scales, Stamp, Value, codec,
};
use std::ops::{Bound, RangeInclusive};

/// Up to this many events are looked up one by one, which is faster than a scan.
const FEW_EVENTS: u64 = 48;

/// The events of one generation of a run.
pub(crate) struct RunEvents<'l> {
    pub view: &'l View<'l>,
    pub overlay: &'l WriteSet,
    pub run: &'l Name,
    pub generation: u64,
}

impl RunEvents<'_> {
    /// Visits the events after `after` up to `upto`, which must exist, until `visit` returns `false`.
    pub fn each(
        &self,
        after: u64,
        upto: u64,
        mut visit: impl FnMut(u64, EntryHeader, &[u8]) -> Result<bool>,
    ) -> Result<()> {
        if upto.saturating_sub(after) > FEW_EVENTS {
            return self.walk(after, upto, visit);
        }
        for seq in after + 1..=upto {
            let found = self.find(seq, |entry, payload| visit(seq, entry, payload))?;
            if !found.ok_or_else(|| damaged(self.run.as_str(), seq))? {
                break;
            }
        }
        Ok(())
    }

    /// Reads one event.
    pub fn find<T>(
        &self,
        seq: u64,
        read: impl FnMut(EntryHeader, &[u8]) -> Result<T>,
    ) -> Result<Option<T>> {
        let place = run_keys::at(self.run.as_str(), self.generation, seq);
        let (key, hash) = self.view.key(EVENTS, &place);
        Ok(self.view.find(self.overlay, &key, hash, read)?.map(|(found, _)| found))
    }

    fn walk(
        &self,
        after: u64,
        upto: u64,
        mut visit: impl FnMut(u64, EntryHeader, &[u8]) -> Result<bool>,
    ) -> Result<()> {
        let run = self.run.as_str();
        let mut expected = after + 1;
        let prefix = run_keys::life(run, self.generation);
        let from = run_keys::at(run, self.generation, after);
        if let ([(branch, at)], true) = (&self.view.layers[..], self.overlay.is_empty()) {
            return self.scan(*branch, *at, &from, after + 1..=upto, visit);
        }
        let mut walk = self.view.walk(self.overlay, EVENTS, &prefix, Some(&from));
        while expected <= upto {
            let step = walk.next()?.ok_or_else(|| damaged(run, expected))?;
            if run_keys::seq(&step.name()[prefix.len()..]) != Some(expected) {
                return Err(damaged(run, expected));
            }
            if !visit(expected, step.head, step.payload())? {
                break;
            }
            expected += 1;
        }
        Ok(())
    }

    /// Scans a single layer, so that no layers have to be merged.
    fn scan(
        &self,
        branch: u32,
        at: Revision,
        from: &[u8],
        wanted: RangeInclusive<u64>,
        mut visit: impl FnMut(u64, EntryHeader, &[u8]) -> Result<bool>,
    ) -> Result<()> {
        let run = self.run.as_str();
        let from = keyspace::key(EVENTS, branch, from);
        let last =
            keyspace::key(EVENTS, branch, &run_keys::at(run, self.generation, *wanted.end()));
        let rows = self.view.scan(Bound::Excluded(&from), Bound::Included(&last), at);
        let mut expected = *wanted.start();
        for row in rows {
            let row = row?;
            if run_keys::seq(&row.key()[row.key().len() - 8..]) != Some(expected) {
                return Err(damaged(run, expected));
            }
            let (head, payload) = entry::parse(row.entry())?;
            if !visit(expected, head, payload)? {
                return Ok(());
            }
            expected += 1;
        }
        if expected > *wanted.end() { Ok(()) } else { Err(damaged(run, expected)) }
    }
}

#[cold]
pub(super) fn damaged(run: &str, seq: u64) -> Error {
    let message =
        format!("event {seq} of run `{run}` is missing or damaged: run `mainstay doctor`");
    Error::new(Code::CorruptData, message)
}

/// Returns events after `after`. A missing run has none.
pub(crate) fn fetch(
    view: &View<'_>,
    overlay: &WriteSet,
    run: &Name,
    after: u64,
    limit: usize,
) -> Result<Vec<CanonicalEvent>> {
    check_page(limit)?;
    match head::find(view, overlay, run)? {
        Some((head, _)) => events(view, overlay, run, &head, after, limit),
        None => Ok(Vec::new()),
    }
}

/// Returns events after `after`, up to the one that reaches the size limit.
pub(crate) fn fetch_within(
    view: &View<'_>,
    run: &Name,
    after: u64,
    (limit, bytes): (usize, usize),
) -> Result<Vec<CanonicalEvent>> {
    let overlay = WriteSet::default();
    let Some((head, _)) = head::find(view, &overlay, run)? else { return Ok(Vec::new()) };
    events_within(view, &overlay, run, &head, after, (limit, bytes))
}

pub(crate) fn events(
    view: &View<'_>,
    overlay: &WriteSet,
    run: &Name,
    head: &RunHead,
    after: u64,
    limit: usize,
) -> Result<Vec<CanonicalEvent>> {
    events_within(view, overlay, run, head, after, (limit, usize::MAX))
}

fn events_within(
    view: &View<'_>,
    overlay: &WriteSet,
    run: &Name,
    head: &RunHead,
    after: u64,
    (limit, bytes): (usize, usize),
) -> Result<Vec<CanonicalEvent>> {
    let upto = after.saturating_add(limit as u64).min(head.last_seq);
    let mut events = Vec::new();
    let mut scales = Scales::default();
    let mut left = bytes;
    let log = RunEvents { view, overlay, run, generation: head.generation };
    log.each(after.min(upto), upto, |seq, entry, payload| {
        let event = CanonicalEvent::decode(payload, run.as_str(), seq, entry.stamp)?;
        scales.add_event(&event)?;
        events.push(event);
        left = left.saturating_sub(payload.len());
        Ok(left > 0)
    })?;
    Ok(events)
}

/// Visits the contents of one generation of a run: creation time and metadata as sequence 0, then the events.
pub(crate) fn each_event(
    view: &View<'_>,
    run: &Name,
    (entry, head): (EntryHeader, &[u8]),
    mut visit: impl FnMut(u64, EntryHeader, &[u8]) -> Result<()>,
) -> Result<()> {
    let RunHead { generation, last_seq, created, shown, .. } = RunHead::decode(head)?;
    // A restored event counts from the revision that made its run visible.
    let mut visit = |seq, entry: EntryHeader, payload: &[u8]| {
        visit(seq, EntryHeader { revision: entry.revision.max(shown), ..entry }, payload)
    };
    let log = RunEvents { view, overlay: &WriteSet::default(), run, generation };
    let metadata = log.find(0, |entry, payload| Ok((entry, payload.to_vec())))?;
    // Without metadata, the header of the first event is used, because no entry of the run is older.
    let first = log.find(1, |entry, _| Ok(entry))?.unwrap_or(entry);
    let (first, metadata) = metadata.unwrap_or((first, Vec::new()));
    let mut made = Vec::with_capacity(10 + metadata.len());
    put_varint(&mut made, created);
    made.extend_from_slice(&metadata);
    visit(0, first, &made)?;
    log.each(0, last_seq, |seq, entry, payload| visit(seq, entry, payload).map(|()| true))
}

/// Decodes the creation time and the metadata that [`each_event`] passes as sequence 0.
pub(crate) fn made_of(mut made: &[u8]) -> Option<(Stamp, Option<Value>)> {
    let created = get_varint(&mut made)?;
    let metadata = if made.is_empty() { None } else { Some(codec::decode(made).ok()?) };
    Some((created, metadata))
}

/// Returns the description of a run.
pub(crate) fn info(view: &View<'_>, overlay: &WriteSet, run: &Name) -> Result<Option<RunInfo>> {
    let Some((head, entry)) = head::find(view, overlay, run)? else { return Ok(None) };
    let metadata = head::metadata(view, overlay, run, head.generation)?;
    Ok(Some(head.info(run.as_str(), &entry, metadata)))
}

/// Returns the snapshot after event `seq`, or after the last one. `None` if the run or the event does not
/// exist.
pub(crate) fn snapshot(
    view: &View<'_>,
    overlay: &WriteSet,
    run: &Name,
    seq: Option<u64>,
) -> Result<Option<RunSnapshot>> {
    let Some((head, _)) = head::find(view, overlay, run)? else { return Ok(None) };
    snapshot_of(view, overlay, run, &head, seq)
}

pub(crate) fn snapshot_of(
    view: &View<'_>,
    overlay: &WriteSet,
    run: &Name,
    head: &RunHead,
    seq: Option<u64>,
) -> Result<Option<RunSnapshot>> {
    let seq = seq.unwrap_or(head.last_seq);
    if seq > head.last_seq {
        return Ok(None);
    }
    fold::upto(view, overlay, run, head, seq).map(Some)
}

/// Returns the snapshot of a run, folded from the first event on.
pub(crate) fn project(
    view: &View<'_>,
    overlay: &WriteSet,
    run: &Name,
) -> Result<Option<RunSnapshot>> {
    let Some((head, _)) = head::find(view, overlay, run)? else { return Ok(None) };
    fold::project(view, overlay, run, &head).map(Some)
}

/// Returns the last sequence number of a run.
pub(crate) fn last_seq_of(view: &View<'_>, overlay: &WriteSet, run: &Name) -> Result<Option<u64>> {
    Ok(head::find(view, overlay, run)?.map(|(head, _)| head.last_seq))
}

/// Returns the sequence number of the event with an idempotency key.
pub(crate) fn seq_of(
    view: &View<'_>,
    overlay: &WriteSet,
    run: &Name,
    key: &str,
) -> Result<Option<u64>> {
    let Some((head, _)) = head::find(view, overlay, run)? else { return Ok(None) };
    let place = run_keys::key(run.as_str(), head.generation, key);
    let (key, hash) = view.key(EVENT_KEYS, &place);
    Ok(view
        .find(overlay, &key, hash, |_, mut payload| {
            Ok(get_varint(&mut payload).unwrap_or_default())
        })?
        .map(|(seq, _)| seq))
}

/// Returns the revision that wrote an event, or that made it visible if its run was restored.
pub(crate) fn revision_of(
    view: &View<'_>,
    overlay: &WriteSet,
    run: &Name,
    seq: u64,
) -> Result<Option<Revision>> {
    let Some((head, _)) = head::find(view, overlay, run)? else { return Ok(None) };
    if !(1..=head.last_seq).contains(&seq) {
        return Ok(None);
    }
    let log = RunEvents { view, overlay, run, generation: head.generation };
    log.find(seq, |entry, _| Ok(entry.revision.max(head.shown)))
}

/// Returns the alerts of a run: events that are invalid after those before them.
pub(crate) fn alerts(
    view: &View<'_>,
    overlay: &WriteSet,
    run: &Name,
    after: u64,
    limit: usize,
) -> Result<Vec<RunAlert>> {
    check_page(limit)?;
    let Some((head, _)) = head::find(view, overlay, run)? else { return Ok(Vec::new()) };
    let prefix = run_keys::life(run.as_str(), head.generation);
    let from = run_keys::at(run.as_str(), head.generation, after);
    let mut walk = view.walk(overlay, ALERTS, &prefix, Some(&from));
    let mut alerts = Vec::new();
    let mut scales = Scales::default();
    while let Some(step) = walk.next()?.filter(|_| alerts.len() < limit) {
        let Some(run_seq) = run_keys::seq(&step.name()[prefix.len()..]) else { continue };
        let message = String::from_utf8_lossy(step.payload()).into_owned();
        scales.add_bytes(message.len())?;
        alerts.push(RunAlert { run_seq, message, stamp: step.head.stamp });
    }
    Ok(alerts)
}

/// Returns the stored state of a user's reducer, if it has this version and includes no event after `upto`.
pub(crate) fn kept(
    view: &View<'_>,
    overlay: &WriteSet,
    run: &Name,
    reducer: &str,
    version: u64,
    upto: Option<u64>,
) -> Result<Option<KeptState>> {
    let Some((head, _)) = head::find(view, overlay, run)? else { return Ok(None) };
    let (key, hash) = view.key(STATES, &run_keys::state(run.as_str(), head.generation, reducer));
    let found = view.find(overlay, &key, hash, |_, payload| {
        let mut rest = payload;
        let numbers = get_varint(&mut rest).zip(get_varint(&mut rest));
        let (of, seq) = numbers.ok_or_else(|| damaged(run.as_str(), 0))?;
        let fits = of == version && upto.is_none_or(|upto| seq <= upto);
        fits.then(|| Ok(KeptState { seq, state: codec::decode(rest)? })).transpose()
    })?;
    Ok(found.and_then(|(kept, _)| kept))
}

/// Lists runs in byte order of their names.
pub(crate) fn list(
    view: &View<'_>,
    overlay: &WriteSet,
    filter: &RunFilter,
    after: Option<&str>,
    limit: usize,
) -> Result<RunPage> {
    check_page(limit)?;
    let prefix = filter.prefix.as_bytes();
    let after = after.map(str::as_bytes);
    let mut walk = view.walk(overlay, RUNS, prefix, after);
    let mut page = RunPage::default();
    while let Some(step) = walk.next()? {
        if !step.head.is_live(view.now) {
            continue;
        }
        let run = String::from_utf8_lossy(step.name()).into_owned();
        let info = RunHead::decode(step.payload())?.info(&run, &step.head, None);
        if !filter.passes(&info) {
            continue;
        }
        if page.runs.len() == limit {
            page.next = page.runs.last().map(|run| run.run_id.clone());
            break;
        }
        page.runs.push(info);
    }
    Ok(page)
}

//! Merge of a run: appends the source's new events to the target. Diverged histories are a conflict.
//!
//! ```text
//!   base 1..7    source 1..9    target 1..7     8 and 9 are appended unchanged
//!   base 1..7    source 1..9    target 1..8     conflict; theirs: events that the target lacks are appended, with new
//!                                               sequences, and no event is rewritten; ours: the run stays as it is
//! ```
//!
//! A merge never makes a consistent run inconsistent. If the events of one history could not follow those of
//! the other, it is a conflict with each strategy except `ours`, which leaves the run as it is. A deleted run
//! takes no events either.

use super::append::{FeedEvents, RunWriter};
use super::fold::Folds;
use super::head::{self, RunHead};
use super::read::{self, RunEvents};
use super::staged_restore;
use crate::apply::branches::BranchContext;
use crate::apply::outbox::transfer::Event;
use crate::apply::three_way_diff::{DiffPoint, DiffSide, ThreeWayEntry};
use crate::key::keyspace::EVENT_KEYS;
use crate::key::run_keys;
use crate::mvcc::catalog::Layers;
use crate::mvcc::view::View;
use crate::mvcc::write_set::WriteSet;
use crate::storage::index::NEWEST;
use mainstay_model::{CanonicalEvent, Judgement, MergeStrategy, Name, Result, RunSnapshot, reduce};

/// Number of events that are read before they are written.
const PAGE_EVENTS: u64 = 256;
/// Approximate number of bytes that are read before they are written.
const PAGE_BYTES: usize = 8 << 20;

/// The outcome of a merge for one run.
pub(crate) enum RunMerge {
    /// The run is merged, or stays as it is with `ours`. Holds those appended events that have messages.
    Done(Vec<Event>),
    Conflict,
    /// The run is being restored or rewound on the source.
    Unfinished,
}

impl RunMerge {
    /// Returns the outcome for a run that cannot be merged.
    fn refused(strategy: MergeStrategy) -> RunMerge {
        match strategy {
            MergeStrategy::Ours => RunMerge::Done(Vec::new()),
            _ => RunMerge::Conflict,
        }
    }
}

/// Returns whether two sides of a run are equal: the same events, or both deleted.
pub(crate) fn are_equal(one: &DiffSide, other: &DiffSide) -> bool {
    let said = |side: &DiffSide| {
        let head = side.payload.as_deref().and_then(|payload| RunHead::decode(payload).ok());
        head.map(|head| (head.last_seq, head.tip, head.attempts))
    };
    said(one) == said(other)
        && one.payload.is_some() == other.payload.is_some()
        && is_deleted(one) == is_deleted(other)
}

fn is_deleted(side: &DiffSide) -> bool {
    side.payload.is_none() && side.counter > 0
}

/// Merges a run that the source changed into the target, or leaves the target's run as it is with `ours`.
pub(crate) fn merge(
    context: &BranchContext<'_>,
    overlay: &mut WriteSet,
    (source, target): (u32, u32),
    base: DiffPoint,
    triple: &ThreeWayEntry,
    strategy: MergeStrategy,
) -> Result<RunMerge> {
    if triple.b_changed() && strategy != MergeStrategy::Theirs {
        return Ok(RunMerge::refused(strategy));
    }
    let run = Name::new(&String::from_utf8_lossy(&triple.name))?;
    let layers = |branch| context.catalog.layers(branch, NEWEST);
    let from = layers(source);
    let into = layers(target);
    let from = view(context, &from);
    let into = view(context, &into);
    let head = |side: &DiffSide| side.payload.as_deref().map(RunHead::decode).transpose();
    let Some(a) = head(&triple.a)? else {
        if staged_restore::find(&from, &WriteSet::default(), &run)?.is_some() {
            return Ok(match strategy {
                MergeStrategy::Ours => RunMerge::refused(strategy),
                _ => RunMerge::Unfinished,
            });
        }
        super::delete::bury(&into, overlay, &run, context.revision)?;
        return Ok(RunMerge::Done(Vec::new()));
    };
    if is_deleted(&triple.b) {
        return Ok(RunMerge::refused(strategy));
    }
    let before = context.catalog.layers(base.0, base.1);
    let before = view(context, &before);
    let travel = EventTransfer { from: &from, into: &into, run: &run, revision: context.revision };
    let changed = head(&triple.b)?.filter(|_| triple.b_changed());
    let common = head(&triple.base)?
        .map_or(Ok(0), |base| travel.common(&before, &base, &a, changed.as_ref()))?;
    // If the source made the run inconsistent by itself, its events are taken as they are, unless the target
    // has changed the run.
    if let Some(b) =
        head(&triple.b)?.filter(|b| !b.inconsistent && (triple.b_changed() || !a.inconsistent))
        && !travel.can_follow(&a, &b, common)?
    {
        return Ok(RunMerge::refused(strategy));
    }
    travel.go(overlay, &a, common, triple.b.payload.is_some()).map(RunMerge::Done)
}

fn view<'v>(context: &BranchContext<'v>, layers: &'v Layers) -> View<'v> {
    let BranchContext { index, now, budget, .. } = *context;
    View { index, layers, now, fresh: false, budget }
}

/// Transfer of the events of one run from one branch to another.
struct EventTransfer<'t> {
    from: &'t View<'t>,
    into: &'t View<'t>,
    run: &'t Name,
    revision: u64,
}

impl EventTransfer<'_> {
    /// Returns the last event that the source shares with the base: the base's last one, or 0 if that is
    /// unknown. An event of one transaction follows the same events wherever it is visible. A merge that
    /// gives new sequences writes a different event, and then all keys must be compared. All keys are also
    /// compared if the target changed and lacks the base's events. This happens after a merge that left the
    /// target as it was, because the base then has events that the target never got.
    fn common(
        &self,
        before: &View<'_>,
        base: &RunHead,
        a: &RunHead,
        changed: Option<&RunHead>,
    ) -> Result<u64> {
        let nothing = WriteSet::default();
        let at = |view: &View<'_>, generation: u64| {
            let log = RunEvents { view, overlay: &nothing, run: self.run, generation };
            log.find(base.last_seq, |entry, _| Ok(entry.revision))
        };
        if base.last_seq == 0 || base.generation != a.generation {
            return Ok(0);
        }
        let then = at(before, base.generation)?;
        let now = at(self.from, a.generation)?;
        let there = changed.map_or(Ok(then), |b| at(self.into, b.generation))?;
        let is_shared = then.is_some() && then == now && then == there;
        Ok(if is_shared { base.last_seq } else { 0 })
    }

    /// Returns whether the events after `after` that the target lacks can follow the target's events. If the
    /// target ends with `after` they can, as they did in the source.
    fn can_follow(&self, a: &RunHead, b: &RunHead, mut after: u64) -> Result<bool> {
        if after > 0 && after == b.last_seq {
            return Ok(true);
        }
        let nothing = WriteSet::default();
        let snapshot = read::snapshot(self.into, &nothing, self.run, None)?;
        let mut snapshot = snapshot.unwrap_or_else(|| RunSnapshot::new(self.run.as_str()));
        while after < a.last_seq {
            for event in self.events(a, after)? {
                after = event.run_seq;
                let is_there = self.has(b, &event.idempotency_key)?;
                if !is_there && matches!(reduce(&mut snapshot, &event), Judgement::Illegal(_)) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Returns whether the target has an event with this idempotency key.
    fn has(&self, b: &RunHead, key: &str) -> Result<bool> {
        let place = run_keys::key(self.run.as_str(), b.generation, key);
        let (key, hash) = self.into.key(EVENT_KEYS, &place);
        Ok(self.into.find(&WriteSet::default(), &key, hash, |_, _| Ok(()))?.is_some())
    }

    /// Appends the events after `after` that the target lacks. Returns those that have messages.
    fn go(
        &self,
        overlay: &mut WriteSet,
        a: &RunHead,
        after: u64,
        is_there: bool,
    ) -> Result<Vec<Event>> {
        let mut folds = Folds::default();
        let mut with_messages = Vec::new();
        // If the target lacks the run, all events are copied.
        let mut after = if is_there { after } else { 0 };
        if !is_there {
            self.make(overlay, &mut folds, a)?;
        }
        while after < a.last_seq {
            for event in self.events(a, after)? {
                after = event.run_seq;
                if self.writer(overlay, &mut folds).take_over(self.run, &event)? {
                    let key = &event.idempotency_key;
                    with_messages.extend(Event::of(self.from, self.run, key, after)?);
                }
            }
        }
        Ok(with_messages)
    }

    fn writer<'w>(&'w self, overlay: &'w mut WriteSet, folds: &'w mut Folds) -> RunWriter<'w> {
        RunWriter { view: self.into, overlay, folds, revision: self.revision }
    }

    fn make(&self, overlay: &mut WriteSet, folds: &mut Folds, a: &RunHead) -> Result<()> {
        let metadata = head::metadata(self.from, &WriteSet::default(), self.run, a.generation)?;
        staged_restore::give_up(self.into, overlay, self.run, self.revision)?;
        let met = head::meet(self.into, overlay, self.run)?;
        self.writer(overlay, folds).make(
            self.run,
            met,
            a.created,
            metadata.as_ref(),
            FeedEvents::All,
        )
    }

    /// Returns a batch of at least one event.
    fn events(&self, a: &RunHead, after: u64) -> Result<Vec<CanonicalEvent>> {
        let upto = a.last_seq.min(after + PAGE_EVENTS);
        let mut bytes = 0;
        let nothing = WriteSet::default();
        let view = self.from;
        let generation = a.generation;
        let log = RunEvents { view, overlay: &nothing, run: self.run, generation };
        let mut events = Vec::new();
        log.each(after, upto, |seq, entry, payload| {
            let run = self.run.as_str();
            events.push(CanonicalEvent::decode(payload, run, seq, entry.stamp)?);
            bytes += payload.len();
            Ok(bytes < PAGE_BYTES)
        })?;
        Ok(events)
    }
}

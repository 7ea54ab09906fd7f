//! Incremental snapshots: changes of a space since a revision, read from the log.
//!
//! ```text
//!   log  ... | since + 1 | ... | durable |      effects on the space, the last per place --> snapshot of changes
//!        '-- log trimmed, or the space has a newer generation: full snapshot
//! ```
//!
//! A server reads the changes from its log. If a full snapshot is needed, the client reads it at the revision that the server named.

use super::{Keyed, KeyedAt};
use crate::backend::Backend;
use mainstay_client::wait;
use mainstay_engine::apply::keyed::space;
use mainstay_engine::key::entry;
use mainstay_engine::key::keyspace::{self, KEYED};
use mainstay_engine::key::state_keys;
use mainstay_engine::lifecycle::engine::Engine;
use mainstay_engine::mvcc::write_set::WriteSet;
use mainstay_engine::read::pinned_snapshot::PinnedSnapshot;
use mainstay_engine::read::snapshot::Snapshot;
use mainstay_engine::tools::backup::make_durable;
use mainstay_model::wire::{AdminRequest, StateChanged, StateSince, WhyAll};
use mainstay_model::{
    At, EntryBlock, EntryParts, EntryPlace, ErrorKind, Result, Revision, SnapshotHead,
    SnapshotMark, SnapshotTaken, SnapshotWriter, Stamp,
};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// Upper limit for changes gathered in memory. Above it, a full snapshot is streamed instead.
const GATHER_BYTES: usize = 256 << 20;
/// Upper limit for changes in one reply to a client.
const ANSWER_BYTES: usize = 64 << 20;

/// The last effect at each place; `None` for a deletion.
type StateChanges = BTreeMap<EntryPlace, Option<Vec<u8>>>;

/// A durable revision, and the changes of a space up to it.
struct ChangedSince {
    pinned: Arc<PinnedSnapshot>,
    mark: Option<SnapshotMark>,
    /// The changes, or the reason for a full snapshot (`None` if no earlier snapshot was named).
    changes: std::result::Result<StateChanges, Option<WhyAll>>,
}

impl Keyed {
    /// Writes the changes since an earlier snapshot, as of a durable revision. Writes a full snapshot if no
    /// earlier one is named or its changes are unknown.
    pub(super) fn take_since(
        &self,
        since: Option<&SnapshotMark>,
        out: &mut dyn Write,
    ) -> Result<SnapshotTaken> {
        let core = match &self.place {
            Backend::Local(core) => core,
            Backend::Remote(_) => return self.take_since_there(since, out),
        };
        let ChangedSince { pinned, mark, changes } = self.find_since(core, since, GATHER_BYTES)?;
        let view = KeyedAt::here(self.space.clone(), pinned);
        match changes {
            Ok(changes) => {
                let parts = changes.iter().map(|(place, payload)| (&place[..], payload.as_deref()));
                changed(&view, mark, parts.map(Ok), out)
            }
            Err(why) => full(&view, mark, why, out),
        }
    }

    fn take_since_there(
        &self,
        since: Option<&SnapshotMark>,
        out: &mut dyn Write,
    ) -> Result<SnapshotTaken> {
        let (view, StateSince { mark, changed: what, .. }) = loop {
            let found = self.changes_since(since)?;
            match self.at(At::Revision(found.revision)) {
                // Retention trimmed that revision meanwhile: ask again.
                Err(error) if error.kind() == ErrorKind::HistoryTrimmed => {}
                view => break (view?, found),
            }
        };
        match what {
            StateChanged::These(block) => changed(&view, mark, block.iter(), out),
            StateChanged::All(why) => full(&view, mark, why, out),
        }
    }

    /// Returns the changes since a snapshot, as the server sends them to its client.
    #[doc(hidden)]
    pub fn changes_since(&self, since: Option<&SnapshotMark>) -> Result<StateSince> {
        let core = match &self.place {
            Backend::Local(core) => core,
            Backend::Remote(link) => {
                let branch = self.branch.to_string();
                let space = self.space.clone();
                let since = since.cloned();
                return wait(link.ask(AdminRequest::StateSince { branch, space, since }));
            }
        };
        let ChangedSince { pinned, mark, changes } = self.find_since(core, since, ANSWER_BYTES)?;
        let changed = match changes {
            Ok(changes) => {
                let mut block = EntryBlock::default();
                changes.iter().for_each(|(place, payload)| block.push(place, payload.as_deref()));
                StateChanged::These(block)
            }
            Err(why) => StateChanged::All(why),
        };
        Ok(StateSince { revision: pinned.snapshot.revision, mark, changed })
    }

    fn find_since(
        &self,
        core: &Arc<Engine>,
        since: Option<&SnapshotMark>,
        limit_bytes: usize,
    ) -> Result<ChangedSince> {
        core.check_open()?;
        make_durable(core, core.sequencer.published())?;
        // The published revision may be ahead of the durable one, and the other way round.
        let revision = core.sequencer.durable().min(core.sequencer.published());
        let pinned = PinnedSnapshot::new(core, &self.branch, At::Revision(revision))?;
        let mark = self.mark(core, &pinned.snapshot)?;
        let found = |changes| ChangedSince {
            mark: mark.map(|mark| mark.told()),
            pinned: pinned.clone(),
            changes,
        };
        let Some(since) = since else { return Ok(found(Err(None))) };
        let since = match mark.as_ref().map_or(Err(WhyAll::Replaced), |mark| mark.since(since)) {
            // A database that was replaced by a backup has another history under the same name, with other
            // stamps. The stamp tells them apart.
            Ok((since, stamp)) if core.index().stamp_of(since)? == Some(stamp) => since,
            Ok(_) => return Ok(found(Err(Some(WhyAll::Replaced)))),
            Err(why) => return Ok(found(Err(Some(why)))),
        };
        let changes = self.changes(core, &pinned.snapshot, since, limit_bytes)?;
        Ok(found(changes.map_err(Some)))
    }

    /// The identity of this snapshot for later incremental snapshots, or `None` if the space does not
    /// exist.
    fn mark(&self, core: &Arc<Engine>, snapshot: &Snapshot) -> Result<Option<SnapshotOrigin>> {
        let declared = space::find(&snapshot.view(), &WriteSet::default(), &self.space)?;
        let stamp = core.index().stamp_of(snapshot.revision)?;
        Ok(declared.map(|declared| SnapshotOrigin {
            database: core.index().database(),
            space: blake3::hash(self.space.as_bytes()),
            branch: snapshot.branch,
            generation: declared.generation,
            revision: snapshot.revision,
            stamp,
        }))
    }

    /// Returns the changes up to the snapshot's revision, or the reason why they are unknown.
    fn changes(
        &self,
        core: &Arc<Engine>,
        snapshot: &Snapshot,
        since: Revision,
        limit_bytes: usize,
    ) -> Result<std::result::Result<StateChanges, WhyAll>> {
        let declared = space::find(&snapshot.view(), &WriteSet::default(), &self.space)?;
        let Some(declared) = declared.filter(|declared| declared.shown <= since) else {
            return Ok(Err(WhyAll::Replaced));
        };
        // Changes from before the fork are logged under the parent branch, so the branch's own log entries
        // are incomplete.
        if snapshot.layers.get(1).is_some_and(|(_, forked)| *forked > since) {
            return Ok(Err(WhyAll::Forked));
        }
        let mut reader = match core.log.reader(since) {
            Err(error) if error.kind() == ErrorKind::HistoryTrimmed => {
                return Ok(Err(WhyAll::Trimmed));
            }
            reader => reader?,
        };
        let life = state_keys::life(self.space.as_str(), declared.generation);
        let prefix = keyspace::key(KEYED, snapshot.branch, &life);
        let mut changes = StateChanges::new();
        let mut bytes = 0;
        loop {
            let frame = match reader.next(snapshot.revision) {
                Err(error) if error.kind() == ErrorKind::HistoryTrimmed => {
                    return Ok(Err(WhyAll::Trimmed));
                }
                frame => frame?,
            };
            let Some(frame) = frame else { return Ok(Ok(changes)) };
            for transaction in frame.transactions() {
                let transaction = transaction?;
                if transaction.revision <= since || transaction.revision > snapshot.revision {
                    continue;
                }
                for (key, entry) in transaction.effects {
                    let place = key.strip_prefix(&prefix[..]);
                    let Some(place) = place.filter(|place| state_keys::is_entry(place)) else {
                        continue;
                    };
                    let (head, payload) = entry::parse(entry)?;
                    let payload = (!head.is_deleted()).then(|| payload.to_vec());
                    bytes += place.len() + payload.as_ref().map_or(0, Vec::len);
                    changes.insert(EntryPlace::from_slice(place), payload);
                }
            }
            if bytes > limit_bytes {
                return Ok(Err(WhyAll::TooMuch));
            }
        }
    }
}

/// Origin of a snapshot: database, space, generation, branch, revision and stamp.
#[derive(Clone, Copy)]
struct SnapshotOrigin {
    database: [u8; 16],
    space: blake3::Hash,
    branch: u32,
    generation: u64,
    revision: Revision,
    stamp: Option<Stamp>,
}

impl SnapshotOrigin {
    /// Database, space and generation as text, which prefixes the mark.
    fn life(&self) -> String {
        let database: String = self.database.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{database}/{}/{}", &self.space.to_hex()[..16], self.generation)
    }

    fn told(&self) -> SnapshotMark {
        let stamp = self.stamp.unwrap_or(0);
        SnapshotMark(format!("{}/{}/{}-{stamp}", self.life(), self.branch, self.revision))
    }

    /// The revision and stamp of an earlier mark of the same database, space, generation and branch, or the
    /// reason why the mark is not usable.
    fn since(&self, earlier: &SnapshotMark) -> std::result::Result<(Revision, Stamp), WhyAll> {
        let rest = earlier.0.strip_prefix(&self.life()).and_then(|rest| rest.strip_prefix('/'));
        let (branch, revision) =
            rest.and_then(|rest| rest.split_once('/')).ok_or(WhyAll::Replaced)?;
        if branch != self.branch.to_string() {
            return Err(WhyAll::Forked);
        }
        let (revision, stamp) = revision.split_once('-').unwrap_or((revision, "0"));
        let revision = revision.parse().map_err(|_| WhyAll::Replaced)?;
        let stamp = stamp.parse().map_err(|_| WhyAll::Replaced)?;
        if revision > self.revision { Err(WhyAll::Ahead) } else { Ok((revision, stamp)) }
    }
}

fn full(
    view: &KeyedAt,
    mark: Option<SnapshotMark>,
    why: Option<WhyAll>,
    out: &mut dyn Write,
) -> Result<SnapshotTaken> {
    let summary = view.snapshot_to(out)?;
    Ok(SnapshotTaken { summary, mark, is_full: true, why: why.map(WhyAll::text) })
}

fn changed<'e>(
    view: &KeyedAt,
    mark: Option<SnapshotMark>,
    changes: impl Iterator<Item = Result<EntryParts<'e>>>,
    out: &mut dyn Write,
) -> Result<SnapshotTaken> {
    let mut writer = SnapshotWriter::new(out, &SnapshotHead::changes(view.space_info()?))?;
    for entry in changes {
        let (place, payload) = entry?;
        writer.push(place, payload)?;
    }
    Ok(SnapshotTaken { summary: writer.finish()?.0, mark, is_full: false, why: None })
}

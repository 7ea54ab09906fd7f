//! What has changed of a space since a revision, out of the log.
//!
//! ```text
//!   log  ... | since + 1 | ... | durable |      effects on the space, the last of each place --> snapshot of changes
//!        '-- does not reach back, or there is another generation since: all there is
//! ```
//!
//! A server looks into its log and says what has changed; all there is, its client reads as of the moment that it was told.

use super::{Keyed, KeyedAt};
use crate::apply::keyed::space;
use crate::handle::backend::Backend;
use crate::key::entry;
use crate::key::keyspace::{self, KEYED};
use crate::key::state_keys;
use crate::lifecycle::engine::Engine;
use crate::mvcc::write_set::WriteSet;
use crate::read::pinned_snapshot::PinnedSnapshot;
use crate::read::snapshot::Snapshot;
use crate::remote::wait;
use crate::tools::backup::make_durable;
use crate::wire::{AdminRequest, StateChanged, StateSince, WhyAll};
use mainstay_model::{
    At, EntryBlock, EntryParts, EntryPlace, ErrorKind, Result, Revision, SnapshotHead,
    SnapshotMark, SnapshotTaken, SnapshotWriter, Stamp,
};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// More changes than this are not gathered in memory: then all there is is written, in a stream.
const GATHER_BYTES: usize = 256 << 20;
/// More than this do not go to a client in one answer.
const ANSWER_BYTES: usize = 64 << 20;

/// The last that happened at each place; nothing where it is gone.
type StateChanges = BTreeMap<EntryPlace, Option<Vec<u8>>>;

/// A moment that is on stable storage, and what has changed up to it.
struct ChangedSince {
    pinned: Arc<PinnedSnapshot>,
    mark: Option<SnapshotMark>,
    /// Or why all there is has to be written, if there was something to start from.
    changes: std::result::Result<StateChanges, Option<WhyAll>>,
}

impl Keyed {
    /// Writes what has changed since a revision, or, where none is named or nobody knows, all there is: as of a
    /// moment that is on stable storage.
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
                // Retention has passed it meanwhile.
                Err(error) if error.kind() == ErrorKind::HistoryTrimmed => {}
                view => break (view?, found),
            }
        };
        match what {
            StateChanged::These(block) => changed(&view, mark, block.iter(), out),
            StateChanged::All(why) => full(&view, mark, why, out),
        }
    }

    /// What has changed since a snapshot, as a server tells its client.
    #[doc(hidden)]
    pub fn changes_since(&self, since: Option<&SnapshotMark>) -> Result<StateSince> {
        let core = match &self.place {
            Backend::Local(core) => core,
            Backend::Remote(link) => {
                let (branch, space) = (self.branch.to_string(), self.space.clone());
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
        // What is visible may be ahead of what is durable again.
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
            // A database that a backup has replaced has another past under the same name, and other times in it.
            Ok((since, stamp)) if core.index().stamp_of(since)? == Some(stamp) => since,
            Ok(_) => return Ok(found(Err(Some(WhyAll::Replaced)))),
            Err(why) => return Ok(found(Err(Some(why)))),
        };
        let changes = self.changes(core, &pinned.snapshot, since, limit_bytes)?;
        Ok(found(changes.map_err(Some)))
    }

    /// What a later snapshot names this one by; nothing where there is no such space.
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

    /// What has changed up to the revision of a snapshot; or why that cannot be said.
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
        // Below its fork a branch's changes stand in the log as its parent's.
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
        let (mut changes, mut bytes) = (StateChanges::new(), 0);
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

/// The moment of a snapshot: of which database, space, generation and branch, at which revision, and when that was.
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
    /// Database, space and generation, as text.
    fn life(&self) -> String {
        let database: String = self.database.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{database}/{}/{}", &self.space.to_hex()[..16], self.generation)
    }

    fn told(&self) -> SnapshotMark {
        let stamp = self.stamp.unwrap_or(0);
        SnapshotMark(format!("{}/{}/{}-{stamp}", self.life(), self.branch, self.revision))
    }

    /// The revision of an earlier mark of the same database, space, generation and branch, and when that was; or why it is
    /// of no use.
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

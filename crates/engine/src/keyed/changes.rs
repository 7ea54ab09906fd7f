//! What has changed of a space since a revision, out of the log.
//!
//! ```text
//!   log  ... | since + 1 | ... | durable |      effects on the space, the last of each place --> snapshot of changes
//!        '-- does not reach back, or there is another generation since: all there is
//! ```

use super::{Keyed, KeyedAt, View};
use crate::apply::keyed::{places, space};
use crate::backup::make_durable;
use crate::core::Core;
use crate::entry;
use crate::overlay::Overlay;
use crate::pinned::Pinned;
use crate::place::Place;
use crate::snapshot::Snapshot;
use crate::spaces::{self, KEYED};
use mainstay_model::{
    At, EntryPlace, ErrorKind, Result, Revision, SnapshotHead, SnapshotMark, SnapshotTaken,
    SnapshotWriter, Stamp,
};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

/// More changes than this are not gathered in memory: then all there is is written, in a stream.
const GATHER_BYTES: usize = 256 << 20;

const NOT_HERE: &str = "a served database does not give its log";
const TRIMMED: &str = "the log no longer reaches back to the one before";
const REPLACED: &str = "the space was restored or made anew since the one before";
const AHEAD: &str = "the one before is of a later moment than all there is";
const FORKED: &str = "the branch was forked since the one before, or that is of another";
const TOO_MUCH: &str = "too much has changed since the one before";

/// The last that happened at each place; nothing where it is gone.
type Changes = BTreeMap<EntryPlace, Option<Vec<u8>>>;

impl Keyed {
    /// Writes what has changed since a revision, or, where none is named or nobody knows, all there is: as of a
    /// moment that is on stable storage.
    pub(super) fn take_since(
        &self,
        since: Option<&SnapshotMark>,
        out: &mut dyn Write,
    ) -> Result<SnapshotTaken> {
        let Place::Here(core) = &self.place else {
            let view = self.at(At::Latest)?;
            return full(&view, None, since.map(|_| NOT_HERE), out);
        };
        core.check_open()?;
        make_durable(core, core.sequencer.published())?;
        // What is visible may be ahead of what is durable again.
        let revision = core.sequencer.durable().min(core.sequencer.published());
        let pinned = Pinned::new(core, &self.branch, At::Revision(revision))?;
        let view = KeyedAt { space: self.space.clone(), view: View::Here(pinned.clone()) };
        let mark = self.mark(core, &pinned.snapshot)?;
        let Some(since) = since else { return full(&view, mark, None, out) };
        let since = match mark.as_ref().map_or(Err(REPLACED), |mark| mark.since(since)) {
            // A database that a backup has replaced has another past under the same name, and other times in it.
            Ok((since, stamp)) if core.index().stamp_of(since)? == Some(stamp) => since,
            Ok(_) => return full(&view, mark, Some(REPLACED), out),
            Err(why) => return full(&view, mark, Some(why), out),
        };
        match self.changes(core, &pinned.snapshot, since)? {
            Ok(changes) => changed(&view, mark, &changes, out),
            Err(why) => full(&view, mark, Some(why), out),
        }
    }

    /// What a later snapshot names this one by; nothing where there is no such space.
    fn mark(&self, core: &Arc<Core>, snapshot: &Snapshot) -> Result<Option<Mark>> {
        let declared = space::find(&snapshot.view(), &Overlay::default(), &self.space)?;
        let stamp = core.index().stamp_of(snapshot.revision)?;
        Ok(declared.map(|declared| Mark {
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
        core: &Arc<Core>,
        snapshot: &Snapshot,
        since: Revision,
    ) -> Result<std::result::Result<Changes, &'static str>> {
        let declared = space::find(&snapshot.view(), &Overlay::default(), &self.space)?;
        let Some(declared) = declared.filter(|declared| declared.shown <= since) else {
            return Ok(Err(REPLACED));
        };
        // Below its fork a branch's changes stand in the log as its parent's.
        if snapshot.layers.get(1).is_some_and(|(_, forked)| *forked > since) {
            return Ok(Err(FORKED));
        }
        let mut reader = match core.log.reader(since) {
            Err(error) if error.kind() == ErrorKind::HistoryTrimmed => return Ok(Err(TRIMMED)),
            reader => reader?,
        };
        let life = places::life(self.space.as_str(), declared.generation);
        let prefix = spaces::key(KEYED, snapshot.branch, &life);
        let (mut changes, mut bytes) = (Changes::new(), 0);
        loop {
            let frame = match reader.next(snapshot.revision) {
                Err(error) if error.kind() == ErrorKind::HistoryTrimmed => return Ok(Err(TRIMMED)),
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
                    let Some(place) = place.filter(|place| places::is_entry(place)) else {
                        continue;
                    };
                    let (head, payload) = entry::parse(entry)?;
                    let payload = (!head.is_deleted()).then(|| payload.to_vec());
                    bytes += place.len() + payload.as_ref().map_or(0, Vec::len);
                    changes.insert(EntryPlace::from_slice(place), payload);
                }
            }
            if bytes > GATHER_BYTES {
                return Ok(Err(TOO_MUCH));
            }
        }
    }
}

/// The moment of a snapshot: of which database, space, generation and branch, at which revision, and when that was.
#[derive(Clone, Copy)]
struct Mark {
    database: [u8; 16],
    space: blake3::Hash,
    branch: u32,
    generation: u64,
    revision: Revision,
    stamp: Option<Stamp>,
}

impl Mark {
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
    fn since(
        &self,
        earlier: &SnapshotMark,
    ) -> std::result::Result<(Revision, Stamp), &'static str> {
        let rest = earlier.0.strip_prefix(&self.life()).and_then(|rest| rest.strip_prefix('/'));
        let (branch, revision) = rest.and_then(|rest| rest.split_once('/')).ok_or(REPLACED)?;
        if branch != self.branch.to_string() {
            return Err(FORKED);
        }
        let (revision, stamp) = revision.split_once('-').unwrap_or((revision, "0"));
        let revision = revision.parse().map_err(|_| REPLACED)?;
        let stamp = stamp.parse().map_err(|_| REPLACED)?;
        if revision > self.revision { Err(AHEAD) } else { Ok((revision, stamp)) }
    }
}

fn full(
    view: &KeyedAt,
    mark: Option<Mark>,
    why: Option<&'static str>,
    out: &mut dyn Write,
) -> Result<SnapshotTaken> {
    let (summary, mark) = (view.snapshot_to(out)?, mark.map(|mark| mark.told()));
    Ok(SnapshotTaken { summary, mark, is_full: true, why })
}

fn changed(
    view: &KeyedAt,
    mark: Option<Mark>,
    changes: &Changes,
    out: &mut dyn Write,
) -> Result<SnapshotTaken> {
    let mut writer = SnapshotWriter::new(out, &SnapshotHead::changes(view.space_info()?))?;
    for (place, payload) in changes {
        writer.push(place, payload.as_deref())?;
    }
    let (summary, mark) = (writer.finish()?.0, mark.map(|mark| mark.told()));
    Ok(SnapshotTaken { summary, mark, is_full: false, why: None })
}

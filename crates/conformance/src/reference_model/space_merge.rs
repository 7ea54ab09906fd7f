//! Three-way diff and merge of keyed state in the reference model: key by key, the newer version wins.

use super::branches::{Change, ChangedOn};
use super::spaces::{Space, Spaces};
use super::versions::Writer;
use super::{Moment, branches};
use mainstay_model::{
    Contract, MergeStrategy, Revision, SpaceEntry, SpaceInfo, Value, Version, WaitingEntry,
};
use std::collections::BTreeSet;

/// A space at the common ancestor, on the source and on the target.
type Sides = [Option<Space>; 3];

/// One entry at the common ancestor, on the source and on the target.
type Entries = [Option<SpaceEntry>; 3];

/// The differences of two branches: first the spaces, then their entries.
pub(super) fn changes(states: &[&Spaces; 3], now: Moment) -> Vec<Change> {
    let mut spaces = Vec::new();
    let mut entries = Vec::new();
    for name in branches::every_name(states) {
        let sides: Sides = states.map(|state| state.value(name, now));
        let infos = sides.each_ref().map(|side| side.as_ref().map(|space| space.info_or_default()));
        if let Some(on) = branches::compare(&infos) {
            let told = infos.map(|info| info.map(|info| described(&info)));
            spaces.push(branches::change(Contract::Keyed, name.clone(), on, told));
        }
        for (_, held) in places(&sides) {
            let Some(on) = branches::compare(&held) else { continue };
            let key = called(name, held.iter().flatten().next());
            let told = held.map(|entry| entry.map(|entry| value_of(&entry)));
            entries.push(branches::change(Contract::Keyed, key, on, told));
        }
    }
    spaces.into_iter().chain(entries).collect()
}

/// All entry positions that occur on any side, in order.
fn places(sides: &Sides) -> Vec<(Vec<u8>, Entries)> {
    let held =
        sides.each_ref().map(|side| side.as_ref().map(|space| space.entries()).unwrap_or_default());
    let all: BTreeSet<&Vec<u8>> = held.iter().flat_map(|entries| entries.keys()).collect();
    let at = |place: &Vec<u8>| held.each_ref().map(|entries| entries.get(place).cloned());
    all.into_iter().map(|place| (place.clone(), at(place))).collect()
}

fn called(space: &str, entry: Option<&SpaceEntry>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match entry {
        Some(SpaceEntry::State { key, .. }) => format!("{space}/{}", text(key)),
        Some(SpaceEntry::Waiting(WaitingEntry { key, version, .. })) => {
            format!("{space}/{}?{version}", text(key))
        }
        Some(SpaceEntry::Item { key, id, .. }) => format!("{space}/{}#{}", text(key), text(id)),
        Some(SpaceEntry::Position { source, .. }) => format!("{space}@{source}"),
        _ => space.to_owned(),
    }
}

fn described(info: &SpaceInfo) -> Value {
    let text = |text: Option<String>| text.map_or(Value::Null, Value::from);
    let fields = [
        ("versions", text(info.options.versions.map(|kind| kind.to_string()))),
        ("ordered", Value::Bool(info.options.ordered)),
        ("merged", Value::Bool(info.options.merged)),
        ("groups", Value::Int(i64::from(info.options.groups))),
        ("frontier", text(info.frontier.map(|frontier| frontier.to_string()))),
    ];
    Value::Object(fields.map(|(name, value)| (name.to_owned(), value)).into())
}

fn value_of(entry: &SpaceEntry) -> Value {
    let text = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes).into_owned());
    match entry {
        SpaceEntry::State { version, value, .. } => {
            let version = ("version".to_owned(), Value::from(version.to_string()));
            let value = value.as_ref().map(|value| ("value".to_owned(), text(value)));
            Value::Object([version].into_iter().chain(value).collect())
        }
        SpaceEntry::Waiting(waiting) => waiting.value.as_deref().map_or(Value::Null, text),
        SpaceEntry::Item { item, .. } => text(item),
        SpaceEntry::Position { position, .. } => Value::Int(*position as i64),
        _ => Value::Null,
    }
}

/// The merge result for a space.
enum Fate {
    /// The target keeps its space.
    Kept,
    /// The target takes the whole space from the source, which created, replaced or dropped it.
    Whole,
    /// The two spaces are merged entry by entry.
    Merged,
    /// The target dropped the space or declared it differently, so the source's changes do not apply.
    Clash,
}

fn fate([base, a, b]: &Sides, since: Revision) -> Fate {
    let Some(a) = a else {
        return if base.is_some() && b.is_some() { Fate::Whole } else { Fate::Kept };
    };
    let is_whole = match base {
        Some(base) => base.generation != a.generation && a.shown > since,
        None => b.is_none(),
    };
    match b {
        _ if is_whole => Fate::Whole,
        Some(b) if are_alike(a, b) => Fate::Merged,
        _ => Fate::Clash,
    }
}

fn are_alike(a: &Space, b: &Space) -> bool {
    let asked = a.info_or_default().options;
    let mut options = b.info_or_default().options;
    options.versions = options.versions.or(asked.versions);
    options.is_as(&asked)
}

/// Merges the changed spaces into the target. Returns the conflicts: first the spaces, then their
/// entries.
pub(super) fn bring(
    target: &mut Spaces,
    states: &[&Spaces; 3],
    now: Moment,
    since: Revision,
    writer: Writer,
    strategy: MergeStrategy,
) -> Vec<String> {
    use MergeStrategy::{Ours, Strict, Theirs};
    // Conflicts in spaces whose generation differs from the ancestor's are reported last.
    let mut spaces = Vec::new();
    let mut entries = Vec::new();
    let mut last = Vec::new();
    for name in branches::every_name(states) {
        let sides: Sides = states.map(|state| state.value(name, now));
        let [base, a, b] = &sides;
        let generation = |side: &Option<Space>| side.as_ref().map(|space| space.generation);
        let is_other = a.is_some() && generation(a) != generation(base);
        let entries = if is_other { &mut last } else { &mut entries };
        let mut replace = |generation: Option<Revision>| {
            let shown = writer.revision;
            let replaced = a.clone().map(|a| Space {
                generation: generation.unwrap_or(a.generation),
                shown,
                ..a
            });
            target.write(writer, name, replaced, None);
        };
        let said = |side: &Option<Space>| {
            side.as_ref().map(|space| (space.generation, space.info, space.entries()))
        };
        let info = |side: &Option<Space>| side.as_ref().map(|space| space.info);
        let held =
            |side: &Option<Space>| side.as_ref().map(|space| space.entries()).unwrap_or_default();
        match (fate(&sides, since), strategy) {
            (Fate::Kept, _) => {}
            (Fate::Whole, Strict) if said(b) != said(base) => spaces.push(name.clone()),
            (Fate::Whole, Ours) if said(b) != said(base) => {}
            (Fate::Whole, _) => {
                // The target had this generation before, so reusing it would expose leftover data of
                // that time.
                let mut shown = states[2].all(name).iter().filter_map(|it| it.value.as_ref());
                let is_known = shown.any(|space| Some(space.generation) == generation(a));
                replace(is_known.then_some(writer.revision));
            }
            (Fate::Clash, _) if info(a) == info(base) && held(a) == held(base) => {}
            (Fate::Clash, Strict) if info(a) == info(base) => entries.push(name.clone()),
            (Fate::Clash, Strict) => spaces.push(name.clone()),
            (Fate::Clash, Ours) => {}
            (Fate::Clash, Theirs) => replace(Some(writer.revision)),
            (Fate::Merged, _) => {
                let (merged, clashes) = merged(name, &sides, strategy);
                entries.extend(clashes);
                if merged != *b {
                    target.write(writer, name, merged, None);
                }
            }
        }
    }
    spaces.into_iter().chain(entries).chain(last).collect()
}

/// Merges two sides of a space. Returns the merged space and the conflicts in it.
fn merged(name: &str, sides: &Sides, strategy: MergeStrategy) -> (Option<Space>, Vec<String>) {
    let [base, Some(a), Some(b)] = sides else { return (sides[2].clone(), Vec::new()) };
    let mut space = b.clone();
    let mut clashes = Vec::new();
    let is_changed = Some(a.info) != base.as_ref().map(|base| base.info);
    if is_changed {
        space.touch(a.info_or_default().options.versions);
    }
    for (_, held) in places(sides) {
        let [before, theirs, ours] = &held;
        if theirs == before || theirs == ours {
            continue;
        }
        let is_clash = clashes_at(a, b, &held);
        match (is_clash, strategy) {
            (true, MergeStrategy::Strict) => {
                clashes.push(called(name, held.iter().flatten().next()))
            }
            (true, MergeStrategy::Ours) => {}
            (true, MergeStrategy::Theirs) => overwrite(&mut space, &held),
            (false, _) => follow(&mut space, &held),
        }
    }
    if let Some(frontier) = a.info_or_default().frontier.filter(|_| is_changed) {
        space.seal(frontier).expect("the kinds agree");
    }
    (Some(space), clashes)
}

/// Returns whether two entries conflict because it is unknown which is newer.
fn clashes_at(a: &Space, b: &Space, [base, theirs, ours]: &Entries) -> bool {
    let version = |entry: &SpaceEntry| entry.version();
    let is_sealed = |space: &Space, version: Option<Version>| {
        version.is_some_and(|version| space.is_closed(version))
    };
    match (theirs, ours) {
        (Some(theirs @ SpaceEntry::State { .. }), Some(ours)) => version(theirs) == version(ours),
        (Some(theirs @ SpaceEntry::State { .. }), None) => {
            base.is_some() && is_sealed(b, version(theirs))
        }
        (None, Some(held @ SpaceEntry::State { .. })) => {
            ours != base && is_sealed(a, version(held))
        }
        (Some(SpaceEntry::Waiting(_) | SpaceEntry::Item { .. }), Some(_)) => true,
        _ => false,
    }
}

fn overwrite(space: &mut Space, [_, theirs, ours]: &Entries) {
    match (theirs, ours) {
        (Some(SpaceEntry::State { key, version, value: None }), _) if space.is_closed(*version) => {
            space.states.remove(key);
        }
        (Some(entry), _) => space.place(entry.clone()),
        (None, Some(SpaceEntry::State { key, .. })) => drop(space.states.remove(key)),
        _ => {}
    }
}

fn follow(space: &mut Space, [base, theirs, ours]: &Entries) {
    if let Some(kind) = theirs.as_ref().and_then(SpaceEntry::version).map(|version| version.kind())
    {
        space.touch(Some(kind));
    }
    match (theirs, ours) {
        (Some(SpaceEntry::State { key, version, value }), _) => {
            space.settle(key, *version, value.clone());
        }
        (Some(SpaceEntry::Waiting(WaitingEntry { key, version, value })), _) => {
            if space.is_closed(*version) {
                space.settle(key, *version, value.clone());
            } else if space.is_newer(key, *version) {
                space.waiting.entry((*version, key.clone())).or_insert_with(|| value.clone());
            }
        }
        (Some(SpaceEntry::Position { source, position }), _) => {
            let further = space.positions.get(source).is_none_or(|before| before < position);
            if further {
                space.positions.insert(source.clone(), *position);
            }
        }
        (Some(entry), _) => space.place(entry.clone()),
        // The source discarded or settled this entry and the target did not change it. Items and
        // positions are kept.
        (None, Some(SpaceEntry::State { key, .. })) if ours == base => {
            space.states.remove(key);
        }
        (None, Some(SpaceEntry::Waiting(WaitingEntry { key, version, .. }))) if ours == base => {
            space.waiting.remove(&(*version, key.clone()));
        }
        _ => {}
    }
}

/// Returns the changed side if the change is in keyed state, for statistics.
pub fn is_of_spaces(change: &Change) -> Option<ChangedOn> {
    (change.contract == Contract::Keyed).then_some(change.on)
}

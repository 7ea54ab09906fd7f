//! Fuzz target for the index: keys and entries of every key space, as logged and as stored.

use mainstay_engine::apply::keyed::space::Declaration;
use mainstay_engine::apply::outbox;
use mainstay_engine::apply::runs::RunHead;
use mainstay_engine::apply::sessions::bytes::split_part;
use mainstay_engine::commit::request_dedup;
use mainstay_engine::feed::event;
use mainstay_engine::key::entry;
use mainstay_engine::key::{keyspace, run_keys, state_keys};
use mainstay_engine::mvcc::catalog::{BranchRecord, Catalog, MergeRecord, TagRecord};
use mainstay_engine::storage::index_def::IndexDef;
use mainstay_engine::storage::timestamp_index;
use mainstay_model::codec;
use std::fmt::Debug;

const FINGERPRINT: u64 = 7;

/// Decodes entries and the payload of each key space, and checks that each survives a round trip.
pub fn stored(bytes: &[u8]) {
    entry(bytes);
    catalog(bytes);
    contracts(bytes);
    receipt(bytes);
    block(bytes);
    names(bytes);
    effect(bytes);
}

fn again<T: PartialEq + Debug>(
    bytes: &[u8],
    read: impl Fn(&[u8]) -> Option<T>,
    write: impl Fn(&T) -> Vec<u8>,
) {
    if let Some(first) = read(bytes) {
        let written = write(&first);
        assert_eq!(read(&written).as_ref(), Some(&first), "what was written is read as it was");
    }
}

fn entry(bytes: &[u8]) {
    let Ok((head, payload)) = entry::parse(bytes) else { return };
    assert_eq!(head.revision, entry::revision_of(bytes));
    let mut written = Vec::new();
    head.write(payload, &mut written);
    assert_eq!(written, bytes, "an entry has one form");
}

fn catalog(bytes: &[u8]) {
    again(bytes, |bytes| BranchRecord::decode(bytes).ok(), BranchRecord::encode);
    again(bytes, |bytes| TagRecord::decode(bytes).ok(), TagRecord::encode);
    again(bytes, |bytes| MergeRecord::decode(bytes).ok(), MergeRecord::encode);
    again(bytes, |bytes| IndexDef::decode(bytes).ok(), IndexDef::encode);
}

fn contracts(bytes: &[u8]) {
    let appended = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        out
    };
    again(bytes, |bytes| RunHead::decode(bytes).ok(), |head| appended(&|out| head.encode(out)));
    again(
        bytes,
        |bytes| Declaration::decode(bytes).ok(),
        |declared| appended(&|out| declared.encode(out)),
    );
    again(bytes, |mut bytes| outbox::take_state(&mut bytes), outbox::MessageState::encode);
    again(bytes, outbox::Counts::decode, outbox::Counts::encode);
}

fn receipt(bytes: &[u8]) {
    let Ok(kept) = request_dedup::decode(bytes, FINGERPRINT) else { return };
    let mut written = Vec::new();
    request_dedup::encode(FINGERPRINT, &kept, &mut written).expect("what was read can be written");
    let again = request_dedup::decode(&written, FINGERPRINT).expect("what was written can be read");
    // NaN is not equal to itself, so the debug texts are compared.
    assert_eq!(format!("{again:?}"), format!("{kept:?}"));
}

/// Decodes a block of the timestamp index. A block has one form, except that encoding cannot go past a last
/// point at the maximum.
fn block(bytes: &[u8]) {
    let Ok((end, points)) = timestamp_index::decode(bytes) else { return };
    if points.last().is_none_or(|last| last.0 < u64::MAX && last.1 < u64::MAX) {
        assert_eq!(timestamp_index::block(&points, end), bytes, "a block has one form");
    }
}

fn names(bytes: &[u8]) {
    if let Some((space, branch, name)) = keyspace::split(bytes) {
        assert_eq!(keyspace::key(space, branch, name).as_slice(), bytes);
    }
    if let Some((run, generation, rest)) = run_keys::split(bytes) {
        assert_eq!([&run_keys::life(run, generation)[..], rest].concat(), bytes);
        let _ = (run_keys::kept_seq(rest), run_keys::seq(rest));
    }
    if let Some((space, generation, rest)) = state_keys::split(bytes) {
        assert_eq!([&state_keys::life(space, generation)[..], rest].concat(), bytes);
        let _ = state_keys::is_entry(rest);
    }
    let _ = (split_part(bytes), MergeRecord::pair(bytes));
}

/// Splits the bytes into a length-prefixed key and an entry. Passes both to the feed and to the catalog.
fn effect(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first() else { return };
    let Some((key, value)) = rest.split_at_checked(usize::from(*length)) else { return };
    let mut catalog = Catalog::new();
    let mut told = Vec::new();
    if event::events(&catalog, key, value, &mut told).is_err() {
        told.clear();
    }
    assert!(told.len() <= 2, "an effect is an event, and the end of a time before it");
    if let Ok((head, payload)) = entry::parse(value) {
        let _ = catalog.absorb(key, &head, payload);
        let _ = codec::text(payload);
    }
}

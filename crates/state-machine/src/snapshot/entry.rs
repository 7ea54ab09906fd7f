//! Entries of a snapshot, and its head.
//!
//! ```text
//!   1 session    name | opened | lease_ms | expires | mark | responses | last request to the client | pending
//!                number of capabilities, then each name | value
//!   2 response   request id | 0 response, 1 error response | bytes                 of the preceding session
//!                request id | 2 aborted | code's name | message
//!   3 pending    sent | payload                                                   of the preceding session
//!   4 former     name | removed | next request | last request to the client
//!   5 key        stored key | value
//!
//!   head         machine's name | version | clock | limits | counters
//! ```
//!
//! Names, texts and bytes are preceded by their length. Lengths and numbers are varints.

use super::bytes::{put_numbers, put_sized, take_numbers, take_size, take_sized, take_text};
use crate::core::Core;
use crate::counters::Counters;
use crate::faults::{Fault, planted};
use crate::limits::Limits;
use crate::reply::Reply;
use crate::sessions::Session;
use crate::state::is_stored_key;
use mainstay_model::codec::put_varint;
use mainstay_model::{Code, Error, Name, Stamp};
use mainstay_model::{Former, KeptLimits, Letter};
use std::sync::Arc;

const SESSION: u8 = 1;
const RESPONSE: u8 = 2;
const PENDING: u8 = 3;
const FORMER: u8 = 4;
const KEY: u8 = 5;

const IS_RESPONSE: u8 = 0;
const IS_ERROR: u8 = 1;
const IS_ABORTED: u8 = 2;

/// A decoded entry.
pub(super) enum Entry<'b> {
    Session(Name, SessionEntry),
    Response(u64, Reply),
    Pending(Letter<Arc<[u8]>>),
    Former(Name, Stamp, Former),
    Key(&'b [u8], &'b [u8]),
}

/// A decoded session, with the number of responses and requests that must follow it.
pub(super) struct SessionEntry {
    pub(super) session: Session,
    pub(super) responses: u64,
    pub(super) pending: u64,
}

/// The decoded head.
pub(super) struct Head<'b> {
    pub(super) name: &'b str,
    pub(super) version: u64,
    pub(super) clock: Stamp,
    pub(super) limits: Limits,
    pub(super) counters: Counters,
}

pub(super) fn put_head(out: &mut Vec<u8>, name: &str, version: u32, core: &Core) {
    put_sized(out, name.as_bytes());
    put_numbers(out, &[u64::from(version), core.clock]);
    let Limits { kept, mailbox, mailbox_bytes, sessions, formers } = core.limits;
    let limits = [kept.count, kept.bytes, mailbox, mailbox_bytes, sessions, formers];
    put_numbers(out, &limits.map(|limit| limit as u64));
    put_numbers(out, &core.counters.to_array());
}

pub(super) fn take_head(mut rest: &[u8]) -> Option<Head<'_>> {
    let name = take_text(&mut rest)?;
    let [version, clock] = take_numbers(&mut rest)?;
    let mut limit = || take_size(&mut rest);
    let kept = KeptLimits { count: limit()?, bytes: limit()? };
    let mailbox = limit()?;
    let mailbox_bytes = limit()?;
    let sessions = limit()?;
    let formers = limit()?;
    let limits = Limits { kept, mailbox, mailbox_bytes, sessions, formers };
    limits.check().ok()?;
    let counters = take_numbers(&mut rest)?;
    let counters = Counters::from_array(counters.iter().all(is_reached).then_some(counters)?);
    rest.is_empty().then_some(Head { name, version, clock, limits, counters })
}

pub(super) fn put_session(out: &mut Vec<u8>, name: &Name, session: &Session) {
    let Session { ledger, mailbox, capabilities, .. } = session;
    let mark = if planted(Fault::MarkNotInSnapshot) {
        ledger.iter().next().map_or(1, |(id, _)| id)
    } else {
        ledger.mark()
    };
    out.push(SESSION);
    put_sized(out, name.as_bytes());
    put_numbers(out, &[session.opened, session.lease_ms, session.expires]);
    put_numbers(out, &[mark, ledger.len() as u64, mailbox.last(), mailbox.len() as u64]);
    put_varint(out, capabilities.len() as u64);
    for (name, value) in capabilities {
        put_sized(out, name.as_bytes());
        put_sized(out, value.as_bytes());
    }
}

pub(super) fn put_response(out: &mut Vec<u8>, request_id: u64, reply: &Reply) {
    out.push(RESPONSE);
    put_varint(out, request_id);
    match reply {
        Reply::Response { bytes, is_error } => {
            out.push(if *is_error { IS_ERROR } else { IS_RESPONSE });
            put_sized(out, bytes);
        }
        Reply::Aborted(error) => {
            out.push(IS_ABORTED);
            put_sized(out, error.code().name().as_bytes());
            put_sized(out, error.message().as_bytes());
        }
    }
}

pub(super) fn put_pending(out: &mut Vec<u8>, letter: &Letter<Arc<[u8]>>) {
    out.push(PENDING);
    put_varint(out, letter.sent);
    put_sized(out, &letter.payload);
}

pub(super) fn put_former(out: &mut Vec<u8>, name: &Name, gone: Stamp, former: Former) {
    out.push(FORMER);
    put_sized(out, name.as_bytes());
    put_numbers(out, &[gone, former.next_request, former.last_letter]);
}

pub(super) fn put_key(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    out.push(KEY);
    put_sized(out, key);
    put_sized(out, value);
}

/// Splits off an entry.
pub(super) fn take_entry<'b>(rest: &mut &'b [u8]) -> Option<Entry<'b>> {
    match take_kind(rest)? {
        SESSION => take_session(rest),
        RESPONSE => {
            let [request_id] = take_numbers(rest)?;
            Some(Entry::Response(request_id, take_reply(rest)?))
        }
        PENDING => {
            let [sent] = take_numbers(rest)?;
            Some(Entry::Pending(Letter { sent, payload: take_sized(rest)?.into() }))
        }
        FORMER => {
            let name = Name::new(take_text(rest)?).ok()?;
            let [gone, next_request, last_letter] = take_numbers(rest)?;
            let is_worth_it = (next_request > 1 || last_letter > 0) && is_reached(&last_letter);
            let former = Former { next_request, last_letter };
            is_worth_it.then_some(Entry::Former(name, gone, former))
        }
        KEY => {
            let key = take_sized(rest)?;
            let value = take_sized(rest)?;
            is_stored_key(key).then_some(Entry::Key(key, value))
        }
        _ => None,
    }
}

fn take_session<'b>(rest: &mut &'b [u8]) -> Option<Entry<'b>> {
    let name = Name::new(take_text(rest)?).ok()?;
    let [opened, lease_ms, expires] = take_numbers(rest)?;
    let [mark, responses, last_letter, pending] = take_numbers(rest)?;
    if mark == 0 || !is_reached(&last_letter) {
        return None;
    }
    let mut capabilities = Vec::new();
    for _ in 0..take_size(rest)? {
        capabilities.push((take_text(rest)?.to_owned(), take_text(rest)?.to_owned()));
    }
    // The pending requests get their numbers back when they are added one by one.
    let former = Former { next_request: mark, last_letter: last_letter.checked_sub(pending)? };
    let mut session = Session::new(opened, lease_ms, capabilities, former);
    session.expires = expires;
    Some(Entry::Session(name, SessionEntry { session, responses, pending }))
}

fn take_reply(rest: &mut &[u8]) -> Option<Reply> {
    match take_kind(rest)? {
        kind @ (IS_RESPONSE | IS_ERROR) => {
            Some(Reply::Response { bytes: take_sized(rest)?.into(), is_error: kind == IS_ERROR })
        }
        IS_ABORTED => {
            let code = Code::from_name(take_text(rest)?)?;
            Some(Reply::Aborted(Error::new(code, take_text(rest)?)))
        }
        _ => None,
    }
}

/// Returns whether a counter can have reached this number. A higher one is forged, and would overflow.
fn is_reached(number: &u64) -> bool {
    *number <= u64::MAX / 2
}

fn take_kind(rest: &mut &[u8]) -> Option<u8> {
    let (&kind, behind) = rest.split_first()?;
    *rest = behind;
    Some(kind)
}

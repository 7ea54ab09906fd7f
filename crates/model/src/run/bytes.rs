//! Binary encoding of stored events: fields by position, in about half the size of JSON.
//!
//! ```text
//!   event   format (1) | flags u16 LE | id | type | key | data | the optional fields, in the order of their flags
//!   text    kind | bytes      kind 0: length and UTF-8, 1: 32 bytes as 64 digits, 2: 16 bytes as a UUID
//! ```
//!
//! The run, the sequence number and the storage time are stored outside the event. A key made by the formula
//! takes 33 bytes, as does any other text of 64 hexadecimal digits.

use super::event::FIRST_VERSION;
use super::key::hex;
use super::{CONTRACT_VERSION, CanonicalEvent, Instant, NewEvent};
use crate::value::codec;
use crate::{Code, Error, Result, Stamp, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

const FORMAT: u8 = 1;

const TEXT: u8 = 0;
const DIGITS: u8 = 1;
const UUID: u8 = 2;

/// The positions of the hyphens in a UUID.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

const STEP: u16 = 1;
const ENGINE_ATTEMPT: u16 = 1 << 1;
const LOGICAL_ATTEMPT: u16 = 1 << 2;
const EMITTED: u16 = 1 << 3;
const PERSISTED: u16 = 1 << 4;
const PLAN_VERSION: u16 = 1 << 5;
const PLAN_ID: u16 = 1 << 6;
const ADAPTER: u16 = 1 << 7;
const ENGINE_REF: u16 = 1 << 8;
const SIGNAL: u16 = 1 << 9;
const PARENT: u16 = 1 << 10;
const CONTRACT: u16 = 1 << 11;
const MORE: u16 = 1 << 12;

impl CanonicalEvent {
    /// Appends the encoded event, without the run, the sequence number and the storage time, which the store
    /// keeps separately.
    ///
    /// ```
    /// use mainstay_model::{CanonicalEvent, Instant, NewEvent};
    /// let event = NewEvent::new("r", "StepStarted").step("a").stored(7, "e".into(), "k".into(), Instant::of_us(9000));
    /// let mut bytes = Vec::new();
    /// event.encode(&Instant::of_us(9000), &mut bytes)?;
    /// assert_eq!(CanonicalEvent::decode(&bytes, "r", 7, 9000)?, event);
    /// # Ok::<(), mainstay_model::Error>(())
    /// ```
    ///
    /// Returns the range of the bytes that do not depend on the storage time: the id, type, key and data.
    pub fn encode(&self, stored: &Instant, out: &mut Vec<u8>) -> Result<Range<usize>> {
        let persisted = self.persisted_at.as_ref().unwrap_or(stored);
        let parts = Parts {
            event_id: &self.event_id,
            event_type: &self.event_type,
            key: &self.idempotency_key,
            event_data: &self.event_data,
            texts: [
                self.step_id.as_deref(),
                self.engine_attempt_id.as_deref(),
                self.logical_attempt_id.as_deref(),
                unless(&self.emitted_at, stored),
                unless(persisted, stored),
                self.plan_version.as_deref(),
                self.plan_id.as_deref(),
                self.adapter_version.as_deref(),
                self.caused_by_signal_id.as_deref(),
                self.parent_event_id.as_deref(),
                unless_first(&self.contract_version),
            ],
            engine_run_ref: self.engine_run_ref.as_ref(),
            more: &self.more,
        };
        parts.encode(out)
    }

    /// Decodes the output of [`CanonicalEvent::encode`].
    pub fn decode(bytes: &[u8], run: &str, run_seq: u64, stored: Stamp) -> Result<CanonicalEvent> {
        let mut rest = bytes;
        let event = take_event(&mut rest, run, run_seq, stored)?;
        if rest.is_empty() { Ok(event) } else { Err(damaged(run, run_seq)) }
    }
}

impl NewEvent {
    /// Appends the encoding of the stored event, equal to that of [`CanonicalEvent::encode`].
    pub fn encode(
        &self,
        id: &str,
        key: &str,
        stored: &Instant,
        out: &mut Vec<u8>,
    ) -> Result<Range<usize>> {
        let parts = Parts {
            event_id: self.event_id.as_deref().unwrap_or(id),
            event_type: &self.event_type,
            key,
            event_data: &self.event_data,
            texts: [
                self.step_id.as_deref(),
                self.engine_attempt_id.as_deref(),
                self.logical_attempt_id.as_deref(),
                self.emitted_at.as_ref().and_then(|emitted| unless(emitted, stored)),
                None,
                self.plan_version.as_deref(),
                self.plan_id.as_deref(),
                self.adapter_version.as_deref(),
                self.caused_by_signal_id.as_deref(),
                self.parent_event_id.as_deref(),
                unless_first(CONTRACT_VERSION),
            ],
            engine_run_ref: self.engine_run_ref.as_ref(),
            more: &self.more,
        };
        parts.encode(out)
    }
}

/// Returns a timestamp's text, or `None` if it equals the one already known.
fn unless<'i>(moment: &'i Instant, known: &Instant) -> Option<&'i str> {
    (moment != known).then(|| moment.as_str())
}

/// Returns a contract version, or `None` if it is the default of events without one.
fn unless_first(version: &str) -> Option<&str> {
    Some(version).filter(|version| *version != FIRST_VERSION)
}

/// The flags of the optional texts, in order.
const BITS: [u16; 11] = [
    STEP,
    ENGINE_ATTEMPT,
    LOGICAL_ATTEMPT,
    EMITTED,
    PERSISTED,
    PLAN_VERSION,
    PLAN_ID,
    ADAPTER,
    SIGNAL,
    PARENT,
    CONTRACT,
];

/// The borrowed parts of an event to encode.
struct Parts<'e> {
    event_id: &'e str,
    event_type: &'e str,
    key: &'e str,
    event_data: &'e Value,
    /// The optional texts, in the order of their flags.
    texts: [Option<&'e str>; 11],
    engine_run_ref: Option<&'e Value>,
    more: &'e BTreeMap<String, Value>,
}

impl Parts<'_> {
    fn encode(&self, out: &mut Vec<u8>) -> Result<Range<usize>> {
        out.push(FORMAT);
        out.extend_from_slice(&self.which().to_le_bytes());
        let begin = out.len();
        put_text(self.event_id, out);
        put_text(self.event_type, out);
        put_text(self.key, out);
        put_value(self.event_data, out)?;
        let end = out.len();
        self.texts.iter().flatten().for_each(|text| put_text(text, out));
        if let Some(reference) = self.engine_run_ref {
            put_value(reference, out)?;
        }
        if !self.more.is_empty() {
            put_value(&Value::Object(self.more.clone()), out)?;
        }
        Ok(begin..end)
    }

    fn which(&self) -> u16 {
        let there = BITS.iter().zip(self.texts).filter(|(_, text)| text.is_some());
        let reference = if self.engine_run_ref.is_some() { ENGINE_REF } else { 0 };
        let more = if self.more.is_empty() { 0 } else { MORE };
        there.fold(reference | more, |which, (bit, _)| which | bit)
    }
}

fn take_event(rest: &mut &[u8], run: &str, seq: u64, stored: Stamp) -> Result<CanonicalEvent> {
    let fail = || damaged(run, seq);
    let (head, tail) = rest.split_first_chunk::<3>().ok_or_else(fail)?;
    if head[0] != FORMAT {
        return Err(newer(run, seq, head[0]));
    }
    *rest = tail;
    let which = u16::from_le_bytes([head[1], head[2]]);
    let mut text = |bit: Option<u16>| {
        if bit.is_none_or(|bit| which & bit != 0) {
            take_text(rest).map(Some).ok_or_else(fail)
        } else {
            Ok(None)
        }
    };
    let [event_id, event_type, key] = [text(None)?, text(None)?, text(None)?];
    let event_data = take_value(rest).ok_or_else(fail)?;
    let mut text = |bit: u16| {
        if which & bit != 0 { take_text(rest).map(Some).ok_or_else(fail) } else { Ok(None) }
    };
    let now = Instant::of_us(stored);
    let step_id = text(STEP)?;
    let engine_attempt_id = text(ENGINE_ATTEMPT)?;
    let logical_attempt_id = text(LOGICAL_ATTEMPT)?;
    let emitted = text(EMITTED)?.map(Instant::known);
    let persisted = text(PERSISTED)?.map(Instant::known);
    let plan_version = text(PLAN_VERSION)?;
    let plan_id = text(PLAN_ID)?;
    let adapter_version = text(ADAPTER)?;
    let caused_by_signal_id = text(SIGNAL)?;
    let parent_event_id = text(PARENT)?;
    let contract = text(CONTRACT)?;
    let mut value = |bit: u16| {
        if which & bit != 0 { take_value(rest).map(Some).ok_or_else(fail) } else { Ok(None) }
    };
    let engine_run_ref = value(ENGINE_REF)?;
    let more = match value(MORE)? {
        None => BTreeMap::new(),
        Some(Value::Object(more)) => more,
        Some(_) => return Err(fail()),
    };
    Ok(CanonicalEvent {
        run_id: run.to_owned(),
        run_seq: seq,
        event_id: event_id.unwrap_or_default(),
        step_id,
        engine_attempt_id,
        logical_attempt_id,
        event_type: event_type.unwrap_or_default(),
        event_data,
        idempotency_key: key.unwrap_or_default(),
        emitted_at: emitted.unwrap_or_else(|| now.clone()),
        persisted_at: Some(persisted.unwrap_or(now)),
        plan_version,
        plan_id,
        adapter_version,
        engine_run_ref,
        caused_by_signal_id,
        parent_event_id,
        contract_version: contract.unwrap_or_else(|| FIRST_VERSION.to_owned()),
        more,
    })
}

/// The parts of a stored event that the default reducer needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventHeader<'b> {
    /// The type.
    pub event_type: Cow<'b, str>,
    /// The step of the event.
    pub step: Option<Cow<'b, str>>,
    /// The logical attempt that the event names.
    pub attempt: Option<Cow<'b, str>>,
}

/// Decodes only the parts of a stored event that the reducer needs.
pub fn peek_event(bytes: &[u8]) -> Option<EventHeader<'_>> {
    let (head, mut rest) = bytes.split_first_chunk::<3>()?;
    let which = u16::from_le_bytes([head[1], head[2]]);
    skip_text(&mut rest)?;
    let event_type = look_at_text(&mut rest)?;
    skip_text(&mut rest)?;
    skip_value(&mut rest)?;
    let step = if which & STEP != 0 { Some(look_at_text(&mut rest)?) } else { None };
    if which & ENGINE_ATTEMPT != 0 {
        skip_text(&mut rest)?;
    }
    let attempt = if which & LOGICAL_ATTEMPT != 0 { Some(look_at_text(&mut rest)?) } else { None };
    (head[0] == FORMAT).then_some(EventHeader { event_type, step, attempt })
}

/// Appends a text in its shortest encoding.
pub fn put_text(text: &str, out: &mut Vec<u8>) {
    if let Some(bytes) = digits(text.as_bytes()) {
        out.push(DIGITS);
        out.extend_from_slice(&bytes);
    } else if let Some(bytes) = uuid(text.as_bytes()) {
        out.push(UUID);
        out.extend_from_slice(&bytes);
    } else {
        out.push(TEXT);
        codec::put_varint(out, text.len() as u64);
        out.extend_from_slice(text.as_bytes());
    }
}

/// The value of each byte as a lower-case hexadecimal digit; 0xff for other bytes.
const WORTH: [u8; 256] = {
    let mut worth = [0xff; 256];
    let mut value = 0;
    while value < 16 {
        worth[b"0123456789abcdef"[value] as usize] = value as u8;
        value += 1;
    }
    worth
};

/// Decodes hexadecimal digits into bytes. Returns whether all were digits.
fn take_digits(text: &[u8], bytes: &mut [u8]) -> bool {
    let mut all = 0;
    for (pair, byte) in text.chunks_exact(2).zip(bytes) {
        let high = WORTH[usize::from(pair[0])];
        let low = WORTH[usize::from(pair[1])];
        all |= high | low;
        *byte = high << 4 | low & 15;
    }
    all < 16
}

/// Decodes 64 hexadecimal digits into 32 bytes; `None` for any other text.
fn digits(text: &[u8]) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    (text.len() == 64 && take_digits(text, &mut bytes)).then_some(bytes)
}

fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != 36 || HYPHENS.iter().any(|&place| text[place] != b'-') {
        return None;
    }
    let mut bytes = [0; 16];
    let parts = [(0..8, 0..4), (9..13, 4..6), (14..18, 6..8), (19..23, 8..10), (24..36, 10..16)];
    parts.into_iter().all(|(from, to)| take_digits(&text[from], &mut bytes[to])).then_some(bytes)
}

/// Formats a UUID with hyphens.
pub(super) fn uuid_text(bytes: &[u8; 16]) -> String {
    let digits = hex(bytes);
    let mut text = String::with_capacity(36);
    text.push_str(&digits[..8]);
    for part in [8..12, 12..16, 16..20, 20..32] {
        text.push('-');
        text.push_str(&digits[part]);
    }
    text
}

fn take<'b>(rest: &mut &'b [u8], length: usize) -> Option<&'b [u8]> {
    let (taken, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(taken)
}

fn take_length(rest: &mut &[u8]) -> Option<usize> {
    usize::try_from(codec::get_varint(rest)?).ok()
}

/// Decodes the output of [`put_text`].
pub fn take_text(rest: &mut &[u8]) -> Option<String> {
    look_at_text(rest).map(Cow::into_owned)
}

fn look_at_text<'b>(rest: &mut &'b [u8]) -> Option<Cow<'b, str>> {
    match take(rest, 1)?[0] {
        TEXT => {
            let length = take_length(rest)?;
            simdutf8::basic::from_utf8(take(rest, length)?).ok().map(Cow::Borrowed)
        }
        DIGITS => take(rest, 32).map(|bytes| Cow::Owned(hex(bytes))),
        UUID => take(rest, 16)?.try_into().ok().map(|bytes| Cow::Owned(uuid_text(bytes))),
        _ => None,
    }
}

fn skip_text(rest: &mut &[u8]) -> Option<()> {
    let length = match take(rest, 1)?[0] {
        TEXT => take_length(rest)?,
        DIGITS => 32,
        UUID => 16,
        _ => return None,
    };
    take(rest, length).map(drop)
}

fn put_value(value: &Value, out: &mut Vec<u8>) -> Result<()> {
    let mut bytes = Vec::new();
    codec::encode_exact(value, &mut bytes)?;
    codec::put_varint(out, bytes.len() as u64);
    out.extend_from_slice(&bytes);
    Ok(())
}

fn take_value(rest: &mut &[u8]) -> Option<Value> {
    let length = take_length(rest)?;
    codec::decode(take(rest, length)?).ok()
}

fn skip_value(rest: &mut &[u8]) -> Option<()> {
    let length = take_length(rest)?;
    take(rest, length).map(drop)
}

#[cold]
fn damaged(run: &str, seq: u64) -> Error {
    let message =
        format!("event {seq} of run `{run}` cannot be read as it is stored: run `mainstay doctor`");
    Error::new(Code::CorruptData, message)
}

#[cold]
fn newer(run: &str, seq: u64, format: u8) -> Error {
    let message = format!(
        "event {seq} of run `{run}` is stored in format {format}, this program knows {FORMAT}: use a newer program"
    );
    Error::new(Code::NewerFormat, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn maybe_text() -> impl Strategy<Value = Option<String>> {
        let text = prop_oneof!["[a-z|é]{0,9}", "[0-9a-f]{64}", "[0-9A-F]{64}"];
        prop::option::of(prop_oneof![
            text,
            "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
        ])
    }

    fn event() -> impl Strategy<Value = CanonicalEvent> {
        let texts = prop::collection::vec(maybe_text(), 9);
        let moments = (prop::option::of(0..1_u64 << 50), prop::option::of(0..1_u64 << 50));
        (texts, moments, 0..3_i64, any::<bool>()).prop_map(|(texts, moments, data, more)| {
            let [id, kind, key, step, attempt, plan, signal, parent, contract] =
                <[_; 9]>::try_from(texts).unwrap();
            let known = ["a", "b"].map(|name| (name.to_owned(), Value::from(data)));
            CanonicalEvent {
                run_id: "r".into(),
                run_seq: 3,
                event_id: id.unwrap_or_default(),
                step_id: step.clone(),
                engine_attempt_id: attempt.clone(),
                logical_attempt_id: attempt,
                event_type: kind.unwrap_or_default(),
                event_data: Value::from(data),
                idempotency_key: key.unwrap_or_default(),
                emitted_at: Instant::of_us(moments.0.unwrap_or(77)),
                persisted_at: Some(Instant::of_us(moments.1.unwrap_or(77))),
                plan_version: plan.clone(),
                plan_id: plan,
                adapter_version: step,
                engine_run_ref: more.then_some(Value::Null),
                caused_by_signal_id: signal,
                parent_event_id: parent,
                contract_version: contract.unwrap_or_else(|| FIRST_VERSION.into()),
                more: if more { known.into() } else { BTreeMap::new() },
            }
        })
    }

    proptest! {
        #[test]
        fn an_event_comes_back_as_it_was(event in event()) {
            let mut bytes = Vec::new();
            event.encode(&Instant::of_us(77), &mut bytes).unwrap();
            prop_assert_eq!(&CanonicalEvent::decode(&bytes, "r", 3, 77).unwrap(), &event);
            let seen = peek_event(&bytes).unwrap();
            prop_assert_eq!(seen.event_type, event.event_type.as_str());
            prop_assert_eq!(seen.step.as_deref(), event.step_id.as_deref());
            prop_assert_eq!(seen.attempt.as_deref(), event.logical_attempt_id.as_deref());
            for cut in 0..bytes.len() {
                prop_assert!(CanonicalEvent::decode(&bytes[..cut], "r", 3, 77).is_err());
            }
        }

        #[test]
        fn bytes_of_chance_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..99)) {
            let _ = CanonicalEvent::decode(&bytes, "r", 3, 77);
            let _ = peek_event(&bytes);
        }
    }

    /// The bytes must never change, because runs are stored for years.
    #[test]
    fn the_bytes_are_pinned() {
        let event = super::super::NewEvent::new("r", "StepStarted").step("a").plan("1").data("7");
        let id = "0199a1b2-c3d4-7e5f-8a6b-0123456789ab".to_owned();
        let mut bytes = Vec::new();
        let mut again = Vec::new();
        let now = Instant::of_us(0);
        event.encode(&id, "k", &now, &mut again).unwrap();
        event.stored(1, id, "k".into(), now.clone()).encode(&now, &mut bytes).unwrap();
        assert_eq!(bytes, again);
        let expected = "01210002".to_owned()
            + "0199a1b2c3d47e5f8a6b0123456789ab"
            + "000b5374657053746172746564"
            + "00016b"
            + "09040700000000000000"
            + "000161"
            + "000131";
        assert_eq!(hex(&bytes), expected);
    }
}

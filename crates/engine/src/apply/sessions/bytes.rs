//! Storage format of sessions, their responses and their server messages.
//!
//! ```text
//!   session   1 | opened | epoch | nonce | lease_ms | mark | last_sent | acked | pending_bytes | count | (name, value)...
//!   gone      2 | expired u8 | next request | last_sent          numbers are varints, texts are length-prefixed
//!   slot      responses: see `slot.rs`
//!   letter    the payload of the message
//! ```

use crate::key::keyspace::{self, Key, MAIN_ID, SESSION_DATA, SESSIONS};
use mainstay_model::{Code, Error, Former, Name, Result, SESSION_LEASE_LIMIT_MS, Stamp, codec};

const LIVE: u8 = 1;
const GONE: u8 = 2;

/// Limit of message numbers and byte counts, so that adding to them cannot overflow.
pub(super) const NUMBER_LIMIT: u64 = u64::MAX / 2;

/// The stored state of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredSession {
    Live(Profile),
    /// A closed session, whose numbers are remembered for a while.
    Gone {
        /// Whether the lease was over. Otherwise the client closed the session.
        expired: bool,
        former: Former,
    },
}

/// An open session, without its responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    pub opened: Stamp,
    /// Time at which the current client took the session.
    pub epoch: Stamp,
    /// Nonce of the client that holds the session exclusively. 0: none.
    pub nonce: u64,
    pub lease_ms: u64,
    /// The mark at opening, or as raised by a keep-alive. Later marks are stored with the responses.
    pub mark: u64,
    pub last_sent: u64,
    /// Number of the last acknowledged message. All later messages are pending.
    pub acked: u64,
    pub pending_bytes: u64,
    pub capabilities: Vec<(String, String)>,
}

impl StoredSession {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut numbers = |numbers: &[u64]| numbers.iter().for_each(|n| codec::put_varint(out, *n));
        match self {
            StoredSession::Live(profile) => {
                let Profile { opened, epoch, nonce, lease_ms, mark, .. } = profile;
                let Profile { last_sent, acked, pending_bytes, capabilities, .. } = profile;
                numbers(&[u64::from(LIVE), *opened, *epoch, *nonce, *lease_ms, *mark]);
                numbers(&[*last_sent, *acked, *pending_bytes, capabilities.len() as u64]);
                for (name, value) in &profile.capabilities {
                    put_text(name, out);
                    put_text(value, out);
                }
            }
            StoredSession::Gone { expired, former } => {
                let Former { next_request, last_letter } = *former;
                numbers(&[u64::from(GONE), u64::from(*expired), next_request, last_letter]);
            }
        }
    }

    pub fn decode(payload: &[u8]) -> Result<StoredSession> {
        decode_standing(payload).ok_or_else(damaged)
    }
}

fn decode_standing(payload: &[u8]) -> Option<StoredSession> {
    let (&kind, mut rest) = payload.split_first()?;
    let rest = &mut rest;
    match kind {
        LIVE => {
            let mut numbers = [0; 9];
            for number in &mut numbers {
                *number = codec::get_varint(rest)?;
            }
            let [opened, epoch, nonce, lease_ms, mark, last_sent, acked, pending_bytes, count] =
                numbers;
            let capabilities = (0..count)
                .map(|_| Some((take_text(rest)?, take_text(rest)?)))
                .collect::<Option<_>>()?;
            let profile = Profile {
                opened,
                epoch,
                nonce,
                lease_ms,
                mark,
                last_sent,
                acked,
                pending_bytes,
                capabilities,
            };
            let is_sound = acked <= last_sent
                && last_sent <= NUMBER_LIMIT
                && pending_bytes <= NUMBER_LIMIT
                && lease_ms <= SESSION_LEASE_LIMIT_MS;
            (rest.is_empty() && is_sound).then_some(StoredSession::Live(profile))
        }
        GONE => {
            let expired = codec::get_varint(rest)? != 0;
            let next_request = codec::get_varint(rest)?;
            let last_letter = codec::get_varint(rest)?;
            let former = Former { next_request, last_letter };
            let is_sound = last_letter <= NUMBER_LIMIT;
            (rest.is_empty() && is_sound).then_some(StoredSession::Gone { expired, former })
        }
        _ => None,
    }
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    codec::put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(codec::get_varint(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(std::str::from_utf8(text).ok()?.to_owned())
}

/// The part of a session that a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A slot of responses.
    Slot(u16),
    /// A server message, by its number.
    Letter(u64),
}

/// Returns the key of a session.
pub(crate) fn session_key(session: &Name) -> Key {
    keyspace::key(SESSIONS, MAIN_ID, session.as_bytes())
}

/// Returns the key of a part of a session.
pub fn part_key(session: &Name, part: Part) -> Key {
    let (kind, number) = match part {
        Part::Slot(slot) => (b'R', u64::from(slot)),
        Part::Letter(number) => (b'S', number),
    };
    let mut key = keyspace::key(SESSION_DATA, MAIN_ID, session.as_bytes());
    let mut tail = [0; 10];
    tail[1] = kind;
    tail[2..].copy_from_slice(&number.to_be_bytes());
    key.extend_from_slice(&tail);
    key
}

/// Splits a name of their key space into session and part.
pub fn split_part(name: &[u8]) -> Option<(&str, Part)> {
    let (rest, number) = name.split_last_chunk::<8>()?;
    let number = u64::from_be_bytes(*number);
    let (rest, part) = match rest.split_last_chunk::<2>()? {
        (rest, [0, b'R']) => (rest, Part::Slot(u16::try_from(number).ok()?)),
        (rest, [0, b'S']) => (rest, Part::Letter(number)),
        _ => return None,
    };
    Some((std::str::from_utf8(rest).ok()?, part))
}

#[cold]
pub(crate) fn damaged() -> Error {
    Error::new(
        Code::CorruptData,
        "what is stored of a session cannot be read: run `mainstay doctor`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_these() {
        let capabilities = vec![("n".to_owned(), "vv".to_owned())];
        let profile = Profile {
            opened: 300,
            epoch: 6,
            nonce: 7,
            lease_ms: 2,
            mark: 3,
            last_sent: 9,
            acked: 4,
            pending_bytes: 5,
            capabilities,
        };
        let live = StoredSession::Live(profile);
        let former = Former { next_request: 7, last_letter: 8 };
        let gone = StoredSession::Gone { expired: true, former };
        let cases = [
            (live, vec![1, 0xac, 2, 6, 7, 2, 3, 9, 4, 5, 1, 1, b'n', 2, b'v', b'v']),
            (gone, vec![2, 1, 7, 8]),
        ];
        for (standing, expected) in cases {
            let mut bytes = Vec::new();
            standing.encode(&mut bytes);
            assert_eq!(bytes, expected);
            assert_eq!(StoredSession::decode(&bytes).unwrap(), standing);
            for cut in 0..bytes.len() {
                assert!(StoredSession::decode(&bytes[..cut]).is_err());
            }
        }
    }

    #[test]
    fn numbers_that_cannot_be_counted_on_from_are_refused() {
        let far = NUMBER_LIMIT + 1;
        let live = |last_sent, pending_bytes| {
            StoredSession::Live(Profile { last_sent, pending_bytes, ..Profile::default() })
        };
        let gone = |last_letter| {
            let former = Former { next_request: u64::MAX, last_letter };
            StoredSession::Gone { expired: true, former }
        };
        let is_read = |standing: StoredSession| {
            let mut bytes = Vec::new();
            standing.encode(&mut bytes);
            StoredSession::decode(&bytes).is_ok()
        };
        assert!(is_read(live(NUMBER_LIMIT, NUMBER_LIMIT)) && is_read(gone(NUMBER_LIMIT)));
        assert!(!is_read(live(far, 0)) && !is_read(live(0, far)) && !is_read(gone(far)));
    }

    #[test]
    fn a_key_says_which_part_it_is() {
        let name = Name::new("till-7").unwrap();
        for part in [Part::Slot(1), Part::Letter(u64::MAX)] {
            let key = part_key(&name, part);
            assert_eq!(split_part(&key[keyspace::PREFIX_BYTES..]), Some(("till-7", part)));
        }
        assert_eq!(split_part(b"x"), None);
    }
}

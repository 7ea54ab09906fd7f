//! Idempotency keys: hashes that identify retried events.
//!
//! ```text
//!   run | step or RUN | logical attempt | type | [plan id |] plan version   --SHA-256--> 64 hexadecimal digits
//!   run | SIGNAL | signal id                                                --SHA-256-->
//! ```

use super::bytes::uuid_text;
use crate::{Code, Error, Result, Stamp};
use sha2::{Digest, Sha256};

/// The separator of the parts, which must not occur in any part.
const BETWEEN: char = '|';
/// The step name of an event that concerns the whole run.
const RUN: &str = "RUN";
const SIGNAL: &str = "SIGNAL";
/// The attempt of an event that names none.
const FIRST_ATTEMPT: &str = "1";

/// The parts of an idempotency key.
///
/// ```
/// use mainstay_model::EventKey;
/// let key = EventKey::of("run-1", "StepCompleted", "3").step("fetch").attempt("2");
/// // The same as `printf 'run-1|fetch|2|StepCompleted|3' | sha256sum`.
/// assert!(key.hash()?.starts_with("0ef5ea03a0162a17"));
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventKey<'e> {
    run: &'e str,
    event_type: &'e str,
    plan_version: &'e str,
    step: Option<&'e str>,
    attempt: Option<&'e str>,
    plan_id: Option<&'e str>,
}

impl<'e> EventKey<'e> {
    /// The key of an event that concerns the whole run, in its first attempt.
    pub fn of(run: &'e str, event_type: &'e str, plan_version: &'e str) -> EventKey<'e> {
        EventKey { run, event_type, plan_version, step: None, attempt: None, plan_id: None }
    }

    /// Sets the step.
    #[must_use]
    pub fn step(mut self, step: &'e str) -> EventKey<'e> {
        self.step = Some(step);
        self
    }

    /// Sets the logical attempt.
    #[must_use]
    pub fn attempt(mut self, attempt: &'e str) -> EventKey<'e> {
        self.attempt = Some(attempt);
        self
    }

    /// Sets the plan's id, for plans that have one in addition to the version.
    #[must_use]
    pub fn plan_id(mut self, plan_id: &'e str) -> EventKey<'e> {
        self.plan_id = Some(plan_id);
        self
    }

    /// The key: 64 lower-case hexadecimal digits.
    pub fn hash(&self) -> Result<String> {
        let plan_id = self.plan_id.map(|plan_id| ("planId", plan_id));
        let parts = [
            Some(("runId", self.run)),
            Some(("stepId", self.step.unwrap_or(RUN))),
            Some(("logicalAttemptId", self.attempt.unwrap_or(FIRST_ATTEMPT))),
            Some(("eventType", self.event_type)),
            plan_id,
            Some(("planVersion", self.plan_version)),
        ];
        hash(parts.into_iter().flatten())
    }
}

/// The key of an event that a signal caused. Two signals may pause a run twice, so the signal's id identifies
/// the event.
pub fn signal_key(run: &str, signal_id: &str) -> Result<String> {
    hash([("runId", run), ("", SIGNAL), ("causedBySignalId", signal_id)].into_iter())
}

fn hash<'p>(parts: impl Iterator<Item = (&'p str, &'p str)>) -> Result<String> {
    let mut text = String::new();
    for (place, (name, part)) in parts.enumerate() {
        if part.contains(BETWEEN) {
            let message = format!(
                "{name} `{part}` holds a `|`, which stands between the parts of an idempotency key: give a key of your own"
            );
            return Err(Error::new(Code::InvalidArgument, message));
        }
        if place > 0 {
            text.push(BETWEEN);
        }
        text.push_str(part);
    }
    Ok(hex(&Sha256::digest(text.as_bytes())))
}

/// The id of an event whose producer gave none: a version 7 UUID made of the storage time, the run and the
/// key. It uses no randomness, so that repeated execution gives the same id.
///
/// ```
/// let id = mainstay_model::event_id(1_770_798_600_250_000, "run-1", "key");
/// assert_eq!((id.len(), &id[..15]), (36, "019c4bd2-503a-7"));
/// ```
pub fn event_id(stored: Stamp, run: &str, key: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    let digest = hasher.update(run.as_bytes()).update(&[0]).update(key.as_bytes()).finalize();
    let mut bytes = [0; 16];
    bytes[6..].copy_from_slice(&digest.as_bytes()[..10]);
    bytes[..6].copy_from_slice(&(stored / 1000).to_be_bytes()[2..]);
    bytes[6] = bytes[6] & 0x0f | 0x70;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    uuid_text(&bytes)
}

/// Formats bytes as lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    // The digits are ASCII.
    String::from_utf8(text).unwrap_or_default()
}

/// The digits of hexadecimal numbers.
const DIGITS: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    fn sha(text: &str) -> String {
        hex(&Sha256::digest(text.as_bytes()))
    }

    #[test]
    fn the_formula_is_the_agreed_one() {
        let key = EventKey::of("r", "StepCompleted", "7");
        assert_eq!(key.hash().unwrap(), sha("r|RUN|1|StepCompleted|7"));
        assert_eq!(key.step("s").hash().unwrap(), sha("r|s|1|StepCompleted|7"));
        let key = key.step("s").attempt("3");
        assert_eq!(key.hash().unwrap(), sha("r|s|3|StepCompleted|7"));
        assert_eq!(key.plan_id("p").hash().unwrap(), sha("r|s|3|StepCompleted|p|7"));
        assert_eq!(signal_key("r", "u").unwrap(), sha("r|SIGNAL|u"));
    }

    #[test]
    fn what_would_make_two_keys_one_is_refused() {
        for key in [
            EventKey::of("r|s", "T", "1"),
            EventKey::of("r", "T|", "1"),
            EventKey::of("r", "T", "|"),
            EventKey::of("r", "T", "1").step("a|b"),
            EventKey::of("r", "T", "1").attempt("1|1"),
            EventKey::of("r", "T", "1").plan_id("p|"),
        ] {
            assert_eq!(key.hash().unwrap_err().code(), Code::InvalidArgument, "{key:?}");
        }
        assert!(signal_key("r", "a|b").is_err());
    }
}

//! Binary encoding of stored run snapshots.
//!
//! ```text
//!   snapshot  format (2) | status u8 | last sequence | flags | steps        lists: count, then items
//!   step      name | status u8 | attempts         attempt  status u8 (+ 128: named) | started + 1 or 0 | ended + 1 or 0 [| name]
//! ```
//!
//! Format 1 has no attempt names. It was written by a reducer that ignored attempts, so its state may differ
//! from the current reducer's. It can be read, but no further events may be folded into it.

use super::bytes::{put_text, take_text};
use super::{AttemptSnapshot, RunSnapshot, RunStatus, StepSnapshot, StepStatus};
use crate::value::codec::{get_varint, put_varint};
use crate::{Code, Error, Result};

const FORMAT: u8 = 2;
/// The format of the reducer that ignored attempts.
const WITHOUT_ATTEMPTS: u8 = 1;
/// The bit in an attempt's status that marks a following name.
const NAMED: u8 = 0x80;

const RUN_STATUSES: [RunStatus; 7] = [
    RunStatus::Pending,
    RunStatus::Approved,
    RunStatus::Running,
    RunStatus::Paused,
    RunStatus::Completed,
    RunStatus::Failed,
    RunStatus::Cancelled,
];

const STEP_STATUSES: [StepStatus; 5] = [
    StepStatus::Pending,
    StepStatus::Running,
    StepStatus::Success,
    StepStatus::Failed,
    StepStatus::Skipped,
];

impl RunStatus {
    /// The number of the status in encodings. It never changes.
    pub fn number(self) -> u8 {
        RUN_STATUSES.iter().position(|status| *status == self).unwrap_or_default() as u8
    }

    /// Returns the status with this number.
    pub fn of_number(number: u8) -> Option<RunStatus> {
        RUN_STATUSES.get(usize::from(number)).copied()
    }
}

impl RunSnapshot {
    /// Appends the encoded snapshot, without the run's name.
    ///
    /// ```
    /// use mainstay_model::RunSnapshot;
    /// let (snapshot, mut bytes) = (RunSnapshot::new("r"), Vec::new());
    /// snapshot.encode(&mut bytes);
    /// assert_eq!(RunSnapshot::decode(&bytes, "r")?, snapshot);
    /// # Ok::<(), mainstay_model::Error>(())
    /// ```
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[FORMAT, self.status.number()]);
        put_varint(out, self.last_event_seq);
        put_varint(out, self.flags.len() as u64);
        self.flags.iter().for_each(|flag| put_text(flag, out));
        put_varint(out, self.steps.len() as u64);
        for (name, step) in &self.steps {
            put_text(name, out);
            put_step(step, out);
        }
    }

    /// Returns whether the current reducer wrote these bytes, so that further events may be folded into the
    /// snapshot.
    ///
    /// ```
    /// use mainstay_model::RunSnapshot;
    /// let mut bytes = Vec::new();
    /// RunSnapshot::new("r").encode(&mut bytes);
    /// assert!(RunSnapshot::is_current(&bytes));
    /// // Format 1 is that of versions that ignored attempts.
    /// bytes[0] = 1;
    /// assert!(!RunSnapshot::is_current(&bytes) && RunSnapshot::decode(&bytes, "r").is_ok());
    /// ```
    pub fn is_current(bytes: &[u8]) -> bool {
        bytes.first() == Some(&FORMAT)
    }

    /// Decodes the output of [`RunSnapshot::encode`], of this or an earlier version.
    pub fn decode(bytes: &[u8], run: &str) -> Result<RunSnapshot> {
        let mut rest = bytes;
        let snapshot = take_snapshot(&mut rest, run).filter(|_| rest.is_empty());
        snapshot.ok_or_else(|| {
            let message = format!("a kept snapshot of run `{run}` cannot be read: project it");
            Error::new(Code::CorruptData, message)
        })
    }
}

fn put_step(step: &StepSnapshot, out: &mut Vec<u8>) {
    out.push(step_number(step.status));
    put_varint(out, step.attempts.len() as u64);
    for attempt in &step.attempts {
        let named = attempt.logical_attempt_id.as_deref();
        out.push(step_number(attempt.status) | named.map_or(0, |_| NAMED));
        put_varint(out, attempt.started_seq.map_or(0, |seq| seq + 1));
        put_varint(out, attempt.ended_seq.map_or(0, |seq| seq + 1));
        named.into_iter().for_each(|named| put_text(named, out));
    }
}

fn step_number(status: StepStatus) -> u8 {
    STEP_STATUSES.iter().position(|one| *one == status).unwrap_or_default() as u8
}

fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (&byte, tail) = rest.split_first()?;
    *rest = tail;
    Some(byte)
}

fn step_status(number: u8) -> Option<StepStatus> {
    STEP_STATUSES.get(usize::from(number)).copied()
}

fn take_snapshot(rest: &mut &[u8], run: &str) -> Option<RunSnapshot> {
    let format = take_byte(rest)?;
    if ![FORMAT, WITHOUT_ATTEMPTS].contains(&format) {
        return None;
    }
    let mut snapshot = RunSnapshot::new(run);
    snapshot.status = RunStatus::of_number(take_byte(rest)?)?;
    snapshot.last_event_seq = get_varint(rest)?;
    for _ in 0..get_varint(rest)? {
        snapshot.flags.insert(take_text(rest)?);
    }
    for _ in 0..get_varint(rest)? {
        let name = take_text(rest)?;
        snapshot.steps.insert(name, take_step(rest, format)?);
    }
    Some(snapshot)
}

fn take_step(rest: &mut &[u8], format: u8) -> Option<StepSnapshot> {
    let status = step_status(take_byte(rest)?)?;
    let mut step = StepSnapshot { status, attempts: Vec::new() };
    for _ in 0..get_varint(rest)? {
        let status = take_byte(rest)?;
        let is_named = format == FORMAT && status & NAMED != 0;
        let status = step_status(if is_named { status & !NAMED } else { status })?;
        let [started_seq, ended_seq] =
            [get_varint(rest)?, get_varint(rest)?].map(|seq| seq.checked_sub(1));
        let logical_attempt_id = if is_named { Some(take_text(rest)?) } else { None };
        step.attempts.push(AttemptSnapshot { status, started_seq, ended_seq, logical_attempt_id });
    }
    Some(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn snapshot() -> impl Strategy<Value = RunSnapshot> {
        let seq = || prop::option::of(0..999_u64);
        let attempt = (0..5_usize, seq(), seq(), prop::option::of("[0-9a-z]{0,3}")).prop_map(
            |(status, started_seq, ended_seq, logical_attempt_id)| AttemptSnapshot {
                status: STEP_STATUSES[status],
                started_seq,
                ended_seq,
                logical_attempt_id,
            },
        );
        let step =
            (0..5_usize, prop::collection::vec(attempt, 0..4)).prop_map(|(status, attempts)| {
                StepSnapshot { status: STEP_STATUSES[status], attempts }
            });
        let steps = prop::collection::btree_map("[a-f]{0,3}", step, 0..6);
        let flags = prop::collection::btree_set("[A-Z]{1,3}", 0..3);
        (0..7_usize, any::<u64>(), steps, flags).prop_map(|(status, seq, steps, flags)| {
            RunSnapshot {
                run_id: "r".into(),
                status: RUN_STATUSES[status],
                last_event_seq: seq,
                steps,
                flags,
            }
        })
    }

    proptest! {
        #[test]
        fn a_snapshot_comes_back_as_it_was(snapshot in snapshot()) {
            let mut bytes = Vec::new();
            snapshot.encode(&mut bytes);
            prop_assert_eq!(&RunSnapshot::decode(&bytes, "r").unwrap(), &snapshot);
            for cut in 0..bytes.len() {
                prop_assert!(RunSnapshot::decode(&bytes[..cut], "r").is_err());
            }
        }

        /// Databases contain such bytes, so they must stay readable.
        #[test]
        fn a_snapshot_without_names_is_read_from_the_first_format(mut snapshot in snapshot()) {
            let attempts = snapshot.steps.values_mut().flat_map(|step| &mut step.attempts);
            attempts.for_each(|attempt| attempt.logical_attempt_id = None);
            let mut bytes = Vec::new();
            snapshot.encode(&mut bytes);
            bytes[0] = 1;
            prop_assert_eq!(&RunSnapshot::decode(&bytes, "r").unwrap(), &snapshot);
        }

        #[test]
        fn bytes_of_chance_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = RunSnapshot::decode(&bytes, "r");
        }
    }
}

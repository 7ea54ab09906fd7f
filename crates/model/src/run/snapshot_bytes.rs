//! Snapshots as they are kept: by their places.
//!
//! ```text
//!   snapshot  format (1) | status u8 | last sequence | flags | steps        lists: count, then items
//!   step      name | status u8 | attempts                  attempt  status u8 | started + 1 or 0 | ended + 1 or 0
//! ```

use super::bytes::{put_text, take_text};
use super::{AttemptSnapshot, RunSnapshot, RunStatus, StepSnapshot, StepStatus};
use crate::value::codec::{get_varint, put_varint};
use crate::{Code, Error, Result};

const FORMAT: u8 = 1;

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
    /// Its number, which it keeps for ever.
    pub fn number(self) -> u8 {
        RUN_STATUSES.iter().position(|status| *status == self).unwrap_or_default() as u8
    }

    /// The status of a number.
    pub fn of_number(number: u8) -> Option<RunStatus> {
        RUN_STATUSES.get(usize::from(number)).copied()
    }
}

impl RunSnapshot {
    /// Appends its bytes, all but the run's name.
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

    /// Reads what [`RunSnapshot::encode`] wrote.
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
        out.push(step_number(attempt.status));
        put_varint(out, attempt.started_seq.map_or(0, |seq| seq + 1));
        put_varint(out, attempt.ended_seq.map_or(0, |seq| seq + 1));
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

fn take_step_status(rest: &mut &[u8]) -> Option<StepStatus> {
    STEP_STATUSES.get(usize::from(take_byte(rest)?)).copied()
}

fn take_snapshot(rest: &mut &[u8], run: &str) -> Option<RunSnapshot> {
    if take_byte(rest)? != FORMAT {
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
        snapshot.steps.insert(name, take_step(rest)?);
    }
    Some(snapshot)
}

fn take_step(rest: &mut &[u8]) -> Option<StepSnapshot> {
    let mut step = StepSnapshot { status: take_step_status(rest)?, attempts: Vec::new() };
    for _ in 0..get_varint(rest)? {
        let status = take_step_status(rest)?;
        let [started_seq, ended_seq] =
            [get_varint(rest)?, get_varint(rest)?].map(|seq| seq.checked_sub(1));
        step.attempts.push(AttemptSnapshot { status, started_seq, ended_seq });
    }
    Some(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn snapshot() -> impl Strategy<Value = RunSnapshot> {
        let attempt = (0..5_usize, prop::option::of(0..999_u64), prop::option::of(0..999_u64))
            .prop_map(|(status, started_seq, ended_seq)| AttemptSnapshot {
                status: STEP_STATUSES[status],
                started_seq,
                ended_seq,
            });
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

        #[test]
        fn bytes_of_chance_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = RunSnapshot::decode(&bytes, "r");
        }
    }
}

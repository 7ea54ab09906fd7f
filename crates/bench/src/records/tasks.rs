//! The benchmark tasks: twelve reference fields, most of them with a lease that has not expired.

use crate::context::Outcome;
use mainstay::{Database, Durability, Field, RecordWrite, Test, Transaction, Where};

/// Number of stuck tasks, independent of the total.
pub const STUCK: usize = 100;
/// The current time in milliseconds. Tasks whose lease ended before it are stuck.
pub const NOW_MS: u64 = 1_800_000_000_000;
/// Number of tasks per transaction.
const BATCH: usize = 500;

/// The key of a task.
pub fn key(number: usize) -> String {
    format!("mainstay.state.tasks.email-send.job_{number:09}")
}

/// The fields of a task. `STUCK` evenly spaced tasks are stuck.
pub fn fields(number: usize, count: usize) -> [(&'static str, String); 12] {
    let stuck =
        number.is_multiple_of((count / STUCK).max(1)) && number / (count / STUCK).max(1) < STUCK;
    let timeout_at = if stuck { NOW_MS - 60_000 } else { NOW_MS + 1_000 + number as u64 };
    [
        ("state", "running".to_owned()),
        ("task_type", "email-send".to_owned()),
        ("task_id", format!("job_{number:09}")),
        ("worker", format!("worker-{:03}", number % 64)),
        ("current_step", (number % 7).to_string()),
        ("step_count", "7".to_owned()),
        ("created_at", (NOW_MS - 900_000).to_string()),
        ("updated_at", (NOW_MS - 30_000 + number as u64 % 30_000).to_string()),
        ("timeout_at", timeout_at.to_string()),
        ("error", String::new()),
        ("params_ref", format!("s3://bucket/params/job_{number:09}")),
        ("result_ref", String::new()),
    ]
}

/// Total bytes of all keys, field names and values.
pub fn raw_bytes(count: usize) -> u64 {
    let one = |number| {
        key(number).len() as u64
            + fields(number, count)
                .iter()
                .map(|(name, value)| (name.len() + value.len()) as u64)
                .sum::<u64>()
    };
    (0..count).map(one).sum()
}

/// Declares the index that a sweeper needs.
pub fn declare(database: &Database) -> Outcome<()> {
    database.records().add_index("mainstay.state.tasks.", &["state", "timeout_at"])?;
    Ok(())
}

/// Writes all tasks once.
pub fn load(database: &Database, count: usize) -> Outcome<()> {
    for start in (0..count).step_by(BATCH) {
        let mut batch = Transaction::new().durability(Durability::Memory);
        for number in start..(start + BATCH).min(count) {
            let mut write = RecordWrite::to(&key(number))?;
            for (name, value) in fields(number, count) {
                write = write.set(name, value)?;
            }
            batch = batch.step(write);
        }
        database.execute(batch)?;
    }
    database.sync()?;
    Ok(())
}

/// Filters for stuck tasks: running, with an expired lease.
pub fn stuck() -> Outcome<[Where; 2]> {
    let before = NOW_MS.to_string().into_bytes();
    Ok([
        Where { field: Field::new("state")?, test: Test::Eq(b"running".to_vec()) },
        Where { field: Field::new("timeout_at")?, test: Test::Lt(before) },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay::Fields;

    #[test]
    fn a_hundred_are_stuck_whatever_their_number() {
        for count in [1_000, 10_000] {
            let stuck = stuck().unwrap();
            let passes = |number: &usize| {
                let fields = Fields::of(fields(*number, count)).unwrap();
                stuck.iter().all(|filter| filter.passes(&fields))
            };
            assert_eq!((0..count).filter(passes).count(), STUCK);
        }
    }

    #[test]
    fn the_raw_bytes_are_those_of_keys_names_and_values() {
        let pairs: usize = fields(0, 1).iter().map(|(name, value)| name.len() + value.len()).sum();
        assert_eq!(raw_bytes(1), (key(0).len() + pairs) as u64);
    }
}

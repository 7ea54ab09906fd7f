//! Coordination of a job's coordinator and shards through cells of a database, embedded or remote.
//!
//! ```text
//!   coordinator --status { checkpoint, stage }-> cell  jobs/<job>/checkpoint            --> shards read it with each batch
//!               <--reached, report, failed------ cells jobs/<job>/checkpoint/<id>/<shard> <-- shards
//! ```
//!
//! The status changes by compare-and-swap, so of two coordinators only one continues. A coordinator that
//! starts after a crash ends the unfinished checkpoint: it is committed if its manifest exists, otherwise
//! aborted. A restarted shard ends it too, because the shard may have lost the state it reported.

mod checkpoint_coordinator;
mod protocol;
mod shard_participant;

pub use checkpoint_coordinator::CheckpointCoordinator;
pub use protocol::{CoordinatorState, Outcome, Phase, ShardStatus};
pub(crate) use shard_participant::{ShardAction, ShardParticipant};

use crate::checkpoint::Checkpoints;
use mainstay::{CellCommand, Database, Filter, Name, Revision, Transaction};
use mainstay_model::{Code, Error, Result, Stamp, Value};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The status of a checkpoint, which the coordinator publishes to the shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointStatus {
    /// The checkpoint's number.
    pub checkpoint: u64,
    /// The number of rescalings before it.
    pub epoch: u64,
    /// The number of shards.
    pub shards: u32,
    /// How long the coordinator waits for a message, in milliseconds; `None` if unknown.
    #[serde(default)]
    pub patience_ms: Option<u64>,
    /// The phase of the checkpoint.
    #[serde(rename = "stage")]
    pub phase: Phase,
}

/// The cells through which a job's coordinator and shards communicate.
#[derive(Clone)]
pub struct CoordinationStore {
    db: Database,
    job: String,
}

impl CoordinationStore {
    /// The store of a job, in a database that all of them can reach.
    pub fn new(db: Database, job: &str) -> Result<CoordinationStore> {
        let store = CoordinationStore { db, job: job.to_owned() };
        Name::new(&store.status_cell())?;
        Ok(store)
    }

    /// Reads the status; `None` before the first checkpoint.
    pub fn status(&self) -> Result<Option<CheckpointStatus>> {
        Ok(self.versioned_status()?.map(|(status, _)| status))
    }

    /// Posts a shard's message, which replaces its previous message about this checkpoint.
    pub fn post(&self, checkpoint: u64, shard: u32, message: &ShardStatus) -> Result<()> {
        self.db.cells().set(&self.shard_cell(checkpoint, shard), encode(message)?)?;
        Ok(())
    }

    /// The current time of the database.
    fn now_us(&self) -> Result<Stamp> {
        self.db.now_us()
    }

    fn status_cell(&self) -> String {
        format!("jobs/{}/checkpoint", self.job)
    }

    fn shard_cell(&self, checkpoint: u64, shard: u32) -> String {
        format!("{}/{checkpoint:020}/{shard}", self.status_cell())
    }

    fn versioned_status(&self) -> Result<Option<(CheckpointStatus, u64)>> {
        let Some(cell) = self.db.cells().get_versioned(&self.status_cell())? else {
            return Ok(None);
        };
        Ok(Some((decode(&cell.value)?, cell.counter)))
    }

    /// Changes the status by compare-and-swap. Returns its new counter, or `None` if it has changed.
    fn compare_and_set(
        &self,
        status: &CheckpointStatus,
        expected: Option<u64>,
    ) -> Result<Option<u64>> {
        self.db.cells().cas(&self.status_cell(), expected, encode(status)?)
    }

    /// Changes the status by compare-and-swap. Fails if it has changed. Returns its new counter.
    fn update(&self, status: &CheckpointStatus, expected: Option<u64>) -> Result<u64> {
        match self.compare_and_set(status, expected)? {
            Some(counter) => Ok(counter),
            None => Err(self.conflict_error(status.checkpoint)?),
        }
    }

    /// The reason why a status has been replaced.
    fn conflict_error(&self, checkpoint: u64) -> Result<Error> {
        let status = self.status()?.filter(|status| status.checkpoint == checkpoint);
        if let Some(CheckpointStatus { phase: Phase::Aborted { why }, .. }) = status {
            return Ok(aborted_error(checkpoint, &why));
        }
        let message = format!("another coordinator of job `{}` is at work: let it be", self.job);
        Ok(Error::new(Code::Conflict, message))
    }

    /// Ends an unfinished checkpoint for a restarted shard, because the shard may have lost the state it
    /// reported when it went back to the last checkpoint. If the manifest is being written, waits as long as
    /// its coordinator may take.
    fn resolve_for_shard(
        &self,
        shard: u32,
        shards: u32,
        checkpoints: &Checkpoints,
        wait: Duration,
    ) -> Result<()> {
        loop {
            let after = self.db.revision();
            let Some((mut status, counter)) = self.versioned_status()? else { return Ok(()) };
            // Statuses of another rescaling do not concern this shard.
            if status.shards != shards {
                return Ok(());
            }
            match status.phase {
                Phase::Writing { .. } => {
                    let why = format!("shard {shard} began again");
                    status.phase = Phase::Aborted { why: why.clone() };
                    if self.compare_and_set(&status, Some(counter))?.is_some() {
                        // Wakes the coordinator, which waits for messages of shards.
                        return self.post(status.checkpoint, shard, &ShardStatus::Failed(why));
                    }
                }
                Phase::Committing if self.wait_for_change(wait, after)? => {}
                Phase::Committing => {
                    status.phase = final_phase(checkpoints, &status)?;
                    self.compare_and_set(&status, Some(counter))?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Waits for a change after a revision. Returns whether one occurred.
    fn wait_for_change(&self, wait: Duration, after: Revision) -> Result<bool> {
        let filter = Filter { prefix: Some(self.status_cell()), ..Filter::default() };
        Ok(self.db.watch(filter, after)?.next(wait)?.is_some())
    }

    /// Deletes the messages about a finished checkpoint.
    fn delete_messages(&self, checkpoint: u64, shards: u32) -> Result<()> {
        let mut transaction = Transaction::new();
        for shard in 0..shards {
            let name = Name::new(&self.shard_cell(checkpoint, shard))?;
            transaction = transaction.step(CellCommand::Delete { name, counter: None });
        }
        self.db.execute(transaction).map(|_| ())
    }
}

fn encode<T: Serialize>(message: &T) -> Result<Value> {
    let text = serde_json::to_string(message).map_err(|error| {
        Error::new(Code::InvalidValue, format!("a note for the board: {error}"))
    })?;
    Ok(Value::from(text))
}

pub(crate) fn decode<T: DeserializeOwned>(value: &Value) -> Result<T> {
    let text = value.as_str().unwrap_or_default();
    serde_json::from_str(text).map_err(|error| {
        let message = format!("a note on the board of a job cannot be read: {error}");
        Error::new(Code::CorruptData, message)
    })
}

/// The final phase of a checkpoint whose coordinator died: committed if its manifest exists.
fn final_phase(checkpoints: &Checkpoints, status: &CheckpointStatus) -> Result<Phase> {
    Ok(if checkpoints.is_committed(status.checkpoint, status.epoch)? {
        Phase::Committed
    } else {
        Phase::Aborted { why: "its coordinator ended".to_owned() }
    })
}

#[cold]
fn aborted_error(checkpoint: u64, why: &str) -> Error {
    Error::new(Code::CheckpointAborted, format!("checkpoint {checkpoint} is not: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{CheckpointStore, Job};

    /// A store in which the manifest of checkpoint 1 is being written.
    fn store_in_commit_phase(directory: &std::path::Path) -> (CoordinationStore, Checkpoints) {
        let store = CoordinationStore::new(Database::memory().unwrap(), "job").unwrap();
        let files = CheckpointStore::directory(directory).unwrap();
        let checkpoints = Checkpoints::open(files, Job::new("job", "counts")).unwrap();
        let patience_ms = None;
        let phase = Phase::Committing;
        let status = CheckpointStatus { checkpoint: 1, epoch: 0, shards: 2, patience_ms, phase };
        store.update(&status, None).unwrap();
        (store, checkpoints)
    }

    #[test]
    fn a_manifest_that_is_being_written_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let (store, checkpoints) = store_in_commit_phase(directory.path());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                store.resolve_for_shard(1, 2, &checkpoints, Duration::from_secs(600)).unwrap();
                store.status().unwrap().unwrap().phase
            });
            let (mut status, counter) = store.versioned_status().unwrap().unwrap();
            status.phase = Phase::Committed;
            store.update(&status, Some(counter)).unwrap();
            assert_eq!(waiter.join().unwrap(), Phase::Committed);
        });
    }

    #[test]
    fn whoever_waits_for_one_that_died_looks_for_the_manifest() {
        let directory = tempfile::tempdir().unwrap();
        let (store, checkpoints) = store_in_commit_phase(directory.path());
        store.resolve_for_shard(1, 2, &checkpoints, Duration::from_millis(1)).unwrap();
        assert!(matches!(store.status().unwrap().unwrap().phase, Phase::Aborted { .. }));
        let (store, checkpoints) = store_in_commit_phase(directory.path());
        checkpoints.create(&crate::MemoryState::new()).unwrap();
        store.resolve_for_shard(1, 2, &checkpoints, Duration::from_millis(1)).unwrap();
        assert_eq!(store.status().unwrap().unwrap().phase, Phase::Committed);
        // Statuses of another rescaling are left unchanged.
        let (store, checkpoints) = store_in_commit_phase(directory.path());
        store.resolve_for_shard(1, 3, &checkpoints, Duration::from_millis(1)).unwrap();
        assert_eq!(store.status().unwrap().unwrap().phase, Phase::Committing);
    }
}

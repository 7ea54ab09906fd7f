//! Implements the async `RunStore` interface for the engine's runs.

use super::Runs;
use crate::backend::Backend;
use crate::records::close_beside;
use mainstay_client::{AsyncRuns, Oneshot};
use mainstay_model::build::{run_append, run_batch, run_fetch, run_list};
use mainstay_model::limits::VALUE_LIMIT_BYTES;
use mainstay_model::{
    Answer, Answering, Appended, CanonicalEvent, FetchOptions, Name, NewEvent, Result, RunAnswer,
    RunCapabilities, RunCommand, RunFilter, RunInfo, RunPage, RunSnapshot, RunStore, SmallVec,
    Transaction, Value,
};
use std::sync::Arc;
use std::time::Duration;

/// The engine supports every capability of the interface. An event has the size limit of a value, minus
/// room for the fields around its payload.
const CAPABILITIES: RunCapabilities = RunCapabilities {
    payload_limit_bytes: VALUE_LIMIT_BYTES - (4 << 10),
    ..RunCapabilities::all("mainstay")
};

impl Runs {
    /// Executes a transaction without blocking a thread for the log.
    async fn execute_soon(&self, transaction: Transaction) -> Result<SmallVec<[Answer; 1]>> {
        let receipt = match &self.place {
            Backend::Local(core) => core.sequencer.submit(transaction).await?,
            Backend::Remote(link) => link.execute(&transaction).await?,
        };
        Ok(receipt.answers)
    }

    async fn write_soon(&self, command: RunCommand) -> Result<Answer> {
        let answers = self.execute_soon(Transaction::on(&self.branch).step(command)).await?;
        answers.into_iter().next().ok_or_else(Answer::mismatch)
    }

    async fn read_soon(&self, command: RunCommand) -> Result<RunAnswer> {
        match &self.place {
            Backend::Local(_) => self.read(command),
            Backend::Remote(link) => self.there(link).read(command).await,
        }
    }

    /// Waits for an event on a separate thread: an embedded tail has no async wake-up.
    async fn wait_beside(&self, run: &Name, after_seq: u64, wait: Duration) -> Result<bool> {
        let slot = Arc::new(Oneshot::default());
        let mut tail = self.tail(run.as_str(), after_seq)?;
        let told = slot.clone();
        let name = "mainstay-tail".to_owned();
        match std::thread::Builder::new()
            .name(name)
            .spawn(move || told.put(tail.next(1, wait).map(|events| !events.is_empty())))
        {
            Ok(_) => slot.answer().await,
            // If no thread can be spawned, block this one.
            Err(_) => Ok(!self.tail(run.as_str(), after_seq)?.next(1, wait)?.is_empty()),
        }
    }
}

/// The runs of a branch as a [`RunStore`]. Closing the store closes an embedded database. For a served
/// database it closes only this client's connections; the server keeps running.
///
/// ```
/// use mainstay::{NewEvent, RunStore};
/// use std::sync::Arc;
///
/// async fn start(store: Arc<dyn RunStore>) -> mainstay::Result<u64> {
///     Ok(store.append_event(NewEvent::new("order-7", "RunStarted").plan("1")).await?.run_seq)
/// }
///
/// let store: Arc<dyn RunStore> = Arc::new(mainstay::Database::memory()?.runs());
/// let started = start(store); // to be awaited, on any runtime
/// # drop(started);
/// # Ok::<(), mainstay::Error>(())
/// ```
impl RunStore for Runs {
    fn capabilities(&self) -> RunCapabilities {
        CAPABILITIES
    }

    fn append_event(&self, event: NewEvent) -> Answering<'_, Appended> {
        Box::pin(async move {
            CAPABILITIES.check_event(&event)?;
            self.write_soon(run_append(event, None)?).await?.into_run()?.into_appended()
        })
    }

    fn append_expecting(&self, event: NewEvent, expected_seq: u64) -> Answering<'_, Appended> {
        Box::pin(async move {
            self.write_soon(run_append(event, Some(expected_seq))?)
                .await?
                .into_run()?
                .into_appended()
        })
    }

    fn append_batch(&self, events: Vec<NewEvent>) -> Answering<'_, Vec<Appended>> {
        Box::pin(async move {
            let answers = self.execute_soon(run_batch(&self.branch, events)?).await?;
            answers.into_iter().map(|answer| answer.into_run()?.into_appended()).collect()
        })
    }

    fn bootstrap<'a>(
        &'a self,
        run: &'a str,
        metadata: Value,
        events: Vec<NewEvent>,
    ) -> Answering<'a, Vec<Appended>> {
        Box::pin(async move {
            let run = Name::new(run)?;
            let command = RunCommand::Bootstrap { run, metadata, events };
            self.write_soon(command).await?.into_run()?.into_appended_all()
        })
    }

    fn fetch_events<'a>(
        &'a self,
        run: &'a str,
        options: FetchOptions,
    ) -> Answering<'a, Vec<CanonicalEvent>> {
        Box::pin(async move {
            let command = run_fetch(run, options.after_seq, options.limit)?;
            self.read_soon(command).await?.into_events()
        })
    }

    fn get_snapshot<'a>(&'a self, run: &'a str) -> Answering<'a, Option<RunSnapshot>> {
        Box::pin(async move {
            let command = RunCommand::Snapshot { run: Name::new(run)?, seq: None };
            self.read_soon(command).await?.into_snapshot()
        })
    }

    fn snapshot_at<'a>(&'a self, run: &'a str, seq: u64) -> Answering<'a, Option<RunSnapshot>> {
        Box::pin(async move {
            let Some(info) = RunStore::get(self, run).await? else { return Ok(None) };
            let seq = Some(seq.min(info.last_event_seq));
            let command = RunCommand::Snapshot { run: Name::new(run)?, seq };
            self.read_soon(command).await?.into_snapshot()
        })
    }

    fn project_snapshot<'a>(&'a self, run: &'a str) -> Answering<'a, Option<RunSnapshot>> {
        Box::pin(async move {
            let command = RunCommand::Project { run: Name::new(run)? };
            self.read_soon(command).await?.into_snapshot()
        })
    }

    fn get<'a>(&'a self, run: &'a str) -> Answering<'a, Option<RunInfo>> {
        Box::pin(async move {
            self.read_soon(RunCommand::Get { run: Name::new(run)? }).await?.into_info()
        })
    }

    fn list<'a>(
        &'a self,
        filter: &'a RunFilter,
        after: Option<&'a str>,
        limit: usize,
    ) -> Answering<'a, RunPage> {
        Box::pin(async move { self.read_soon(run_list(filter, after, limit)).await?.into_page() })
    }

    fn delete_run<'a>(&'a self, run: &'a str) -> Answering<'a, bool> {
        Box::pin(async move {
            self.write_soon(RunCommand::Delete { run: Name::new(run)? }).await?.into_did()
        })
    }

    fn restore(&self, events: Vec<CanonicalEvent>) -> Answering<'_, ()> {
        Box::pin(async move {
            let mut transaction = Transaction::on(&self.branch);
            for part in events.chunk_by(|one, next| one.run_id == next.run_id) {
                let run = Name::new(&part[0].run_id)?;
                let events = part.to_vec();
                let metadata = None;
                let created = part.first().map(CanonicalEvent::stored_us);
                let command = RunCommand::Restore { run, metadata, created, events };
                transaction = transaction.step(command);
            }
            self.execute_soon(transaction)
                .await?
                .into_iter()
                .try_for_each(|answer| answer.into_count().map(drop))
        })
    }

    fn wait_for<'a>(&'a self, run: &'a str, after_seq: u64, wait_ms: u64) -> Answering<'a, bool> {
        Box::pin(async move {
            let run = Name::new(run)?;
            let wait = Duration::from_millis(wait_ms);
            match &self.place {
                Backend::Local(_) => self.wait_beside(&run, after_seq, wait).await,
                Backend::Remote(link) => {
                    let events = self.there(link).wait_for(&run, after_seq, 1, wait).await?;
                    Ok(!events.is_empty())
                }
            }
        })
    }

    fn ping(&self) -> Answering<'_, bool> {
        Box::pin(async move {
            Ok(match &self.place {
                Backend::Local(core) => core.check_open().is_ok(),
                Backend::Remote(link) => link.revision().await.is_ok(),
            })
        })
    }

    fn close(&self) -> Answering<'_, ()> {
        Box::pin(async move {
            match &self.place {
                Backend::Local(core) => close_beside(core).await,
                Backend::Remote(link) => {
                    link.close();
                    Ok(())
                }
            }
        })
    }
}

/// Converts the async client into the handle that implements [`RunStore`].
impl From<AsyncRuns> for Runs {
    fn from(runs: AsyncRuns) -> Runs {
        let (link, branch) = runs.into_parts();
        Runs { place: Backend::Remote(link), branch }
    }
}

//! Implements the async `RecordStore` interface for the engine's records.
//!
//! ```text
//!   write --ticket--> sequencer, log --wakes--> the task        embedded: no thread blocks for the log
//!   read  --snapshot--> the answer, at once
//!   both  --request--> server --wakes--> the task               served
//! ```

use super::Records;
use crate::backend::Backend;
use mainstay_client::{AsyncRecords, Oneshot};
use mainstay_engine::lifecycle::engine::Engine;
use mainstay_model::wire::AdminRequest;
use mainstay_model::{
    Answer, Answering, Capabilities, Command, Condition, ExpireOnly, Field, IndexCommand,
    IndexInfo, Name, Record, RecordCommand, RecordHistoryEntry, RecordPage, RecordPick,
    RecordStore, RecordWrite, Result, Transaction, Ttl, Where, check_scan,
};
use std::sync::Arc;

/// The engine supports every capability of the interface.
const CAPABILITIES: Capabilities = Capabilities::all("mainstay");

impl Records {
    /// Executes a command as its own transaction, without blocking a thread for the log. It blocks only if
    /// 65,536 transactions are in flight.
    async fn run_soon(&self, command: impl Into<Command>) -> Result<Answer> {
        let command = command.into();
        match &self.place {
            Backend::Local(core) => {
                let transaction = Transaction::on(&self.branch).step(command);
                let receipt = core.sequencer.submit(transaction).await?;
                receipt.into_first()
            }
            Backend::Remote(link) => link.run(&self.branch, command).await,
        }
    }
}

/// The records of a branch as a [`RecordStore`]. Closing the store closes an embedded database. For a
/// served database it closes only this client's connections; the server keeps running.
///
/// ```
/// use mainstay::{Fields, RecordStore};
/// use std::sync::Arc;
///
/// async fn finish(store: Arc<dyn RecordStore>) -> mainstay::Result<bool> {
///     store.set_fields("tasks.17", &Fields::of([("state", "running")])?).await?;
///     store.compare_and_swap("tasks.17", "state", b"running", "completed".into()).await
/// }
///
/// let store: Arc<dyn RecordStore> = Arc::new(mainstay::Database::memory()?.records());
/// let done = finish(store); // to be awaited, on any runtime
/// # drop(done);
/// # Ok::<(), mainstay::Error>(())
/// ```
impl RecordStore for Records {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn get_some<'a>(
        &'a self,
        key: &'a Name,
        wanted: Option<&'a [Field]>,
    ) -> Answering<'a, Option<Record>> {
        Box::pin(async move {
            match &self.place {
                Backend::Local(_) => Records::get_some(self, key, wanted),
                Backend::Remote(link) => self.there(link).get_some(key, wanted).await,
            }
        })
    }

    fn write<'a>(&'a self, write: RecordWrite) -> Answering<'a, Option<u64>> {
        Box::pin(async move { self.run_soon(write).await?.into_maybe_counter() })
    }

    fn delete_when<'a>(&'a self, key: &'a str, when: Vec<Condition>) -> Answering<'a, bool> {
        Box::pin(async move {
            self.run_soon(RecordCommand::Delete { key: Name::new(key)?, when }).await?.into_did()
        })
    }

    fn expire<'a>(&'a self, key: &'a str, ttl: Ttl) -> Answering<'a, bool> {
        Box::pin(async move {
            let key = Name::new(key)?;
            let only = ExpireOnly::Always;
            self.run_soon(RecordCommand::Expire { key, ttl, only }).await?.into_did()
        })
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        filters: &'a [Where],
        after: Option<&'a str>,
        limit: usize,
    ) -> Answering<'a, RecordPage> {
        Box::pin(async move {
            check_scan(prefix, filters, after, limit)?;
            match &self.place {
                Backend::Local(_) => Records::scan(self, prefix, filters, after, limit),
                Backend::Remote(link) => self.there(link).scan(prefix, filters, after, limit).await,
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

    fn count<'a>(&'a self, prefix: &'a str, filters: &'a [Where]) -> Answering<'a, u64> {
        Box::pin(async move {
            match &self.place {
                Backend::Local(_) => Records::count(self, prefix, filters),
                Backend::Remote(link) => self.there(link).count(prefix, filters).await,
            }
        })
    }

    fn history<'a>(
        &'a self,
        key: &'a str,
        limit: usize,
        before: Option<u64>,
    ) -> Answering<'a, Vec<RecordHistoryEntry>> {
        Box::pin(async move {
            match &self.place {
                Backend::Local(_) => Records::history(self, key, limit, before),
                Backend::Remote(link) => self.there(link).history(key, limit, before).await,
            }
        })
    }

    fn pick<'a>(&'a self, pick: RecordPick) -> Answering<'a, Option<(String, Record)>> {
        Box::pin(async move {
            match self.run_soon(pick).await? {
                Answer::Picked(picked) => Ok(picked.map(|picked| *picked)),
                _ => Err(Answer::mismatch()),
            }
        })
    }

    fn add_index<'a>(&'a self, prefix: &'a str, fields: &'a [Field]) -> Answering<'a, u32> {
        Box::pin(async move {
            let prefix = prefix.to_owned();
            let fields = fields.to_vec();
            match self.run_soon(IndexCommand::Add { prefix, fields }).await? {
                Answer::Count(id) => u32::try_from(id).map_err(|_| Answer::mismatch()),
                _ => Err(Answer::mismatch()),
            }
        })
    }

    fn drop_index(&self, id: u32) -> Answering<'_, bool> {
        Box::pin(async move { self.run_soon(IndexCommand::Drop { id }).await?.into_did() })
    }

    fn indexes(&self) -> Answering<'_, Vec<IndexInfo>> {
        Box::pin(async move {
            match &self.place {
                Backend::Local(_) => Records::indexes(self),
                Backend::Remote(link) => link.ask(AdminRequest::Indexes).await,
            }
        })
    }
}

/// Closes the engine on a separate thread, because closing blocks until the database's own threads have
/// ended.
pub(crate) async fn close_beside(core: &Arc<Engine>) -> Result<()> {
    let slot = Arc::new(Oneshot::default());
    let closing = core.clone();
    let told = slot.clone();
    let name = "mainstay-close".to_owned();
    let spawned = std::thread::Builder::new().name(name).spawn(move || told.put(closing.close()));
    match spawned {
        Ok(_) => slot.answer().await,
        // If no thread can be spawned, block this one.
        Err(_) => core.close(),
    }
}

/// Converts the async client into the handle that implements [`RecordStore`].
impl From<AsyncRecords> for Records {
    fn from(records: AsyncRecords) -> Records {
        let (link, branch) = records.into_parts();
        Records { place: Backend::Remote(link), branch }
    }
}

//! Import: replays an exported file into a hidden branch.

use super::reader::ExportReader;
use super::record::{HEAD, INDEX, TAG, index_of, is_version, source_of, tag_of, version_of};
use super::{ImportReport, Progress, keyed};
use crate::commit::ticket::Ticket;
use crate::lifecycle::engine::Engine;
use mainstay_model::{
    BranchCommand, Code, Command, Error, IndexCommand, Name, Result, Revision, Transaction,
};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

/// The most transactions that an import has in flight.
const UNDER_WAY: usize = 256;

/// Replays a verified file.
///
/// ```text
///   Import: a hidden branch --> its versions --> Finish: it is visible, with its tags
/// ```
///
/// A crash leaves nothing of it, because opening deletes unfinished imports. Sweeps skip the hidden
/// branch, so that nothing expires that a later record of the file replaces.
pub(super) struct Import<'a> {
    core: &'a Arc<Engine>,
    pub name: Name,
    /// The branch's id: before it is finished, it cannot be reached by name.
    id: u32,
    under_way: VecDeque<Ticket>,
    group: Option<(Revision, Transaction)>,
    /// The revision of the newest transaction that has been answered.
    reached: Revision,
    tags: Vec<(Name, Revision)>,
    report: ImportReport,
}

impl<'a> Import<'a> {
    pub fn begin(core: &'a Arc<Engine>, name: Name) -> Result<Import<'a>> {
        let command = BranchCommand::Import { name: name.clone() };
        let begun = core.execute(Transaction::new().step(command))?;
        let catalog = core.state.catalog.read();
        // A name can be reused, but a stamp is unique.
        let mut imports = catalog.imports();
        let own = imports.find(|record| record.created_stamp == begun.stamp);
        let id = own.ok_or_else(|| deleted_meanwhile(&name))?.id;
        let source = String::new();
        let report = ImportReport { source, versions: 0, spaces: 0, tags: 0, revision: 0 };
        let under_way = VecDeque::new();
        let group = None;
        let tags = Vec::new();
        Ok(Import { core, name, id, under_way, group, reached: begun.revision, tags, report })
    }

    pub fn on_branch(&self, command: impl Into<Command>) -> Transaction {
        let mut transaction = Transaction::on(self.name.as_str()).step(command);
        transaction.branch_id = Some(self.id);
        transaction
    }

    pub fn run(mut self, path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<ImportReport> {
        let mut records = ExportReader::open(path)?;
        loop {
            let (kind, body) = records.next()?;
            match kind {
                HEAD => self.report.source = source_of(&body).unwrap_or_default(),
                kind if is_version(kind) => {
                    let version = version_of(kind, &body);
                    let (revision, command) = version.ok_or_else(|| records.damaged("changed"))?;
                    self.add(revision, command)?;
                }
                INDEX => {
                    let index = index_of(&body).ok_or_else(|| records.damaged("changed"))?;
                    self.declare(index)?;
                }
                TAG => {
                    self.settle()?;
                    let tag = tag_of(&body).ok_or_else(|| records.damaged("changed"))?;
                    self.tags.push((tag, self.reached));
                }
                _ => break,
            }
            if self.report.versions.is_multiple_of(1024) {
                let done = self.report.versions;
                progress(Progress { phase: "importing", done, total: None });
            }
        }
        self.finish()?;
        let done = self.report.versions;
        progress(Progress { phase: "importing", done, total: Some(done) });
        Ok(self.report)
    }

    /// Declares an index, unless the same one exists.
    fn declare(&self, index: IndexCommand) -> Result<()> {
        match self.core.execute(Transaction::new().step(index)) {
            Err(error) if error.code() == Code::IndexExists => Ok(()),
            done => done.map(drop),
        }
    }

    /// Adds a version to the transaction of its revision. A new revision completes the transaction
    /// before.
    fn add(&mut self, revision: Revision, command: Command) -> Result<()> {
        self.report.versions += 1;
        self.report.spaces += u64::from(keyed::shows(&command));
        match &mut self.group {
            Some((group, transaction)) if *group == revision => {
                let last = transaction.steps.last_mut().map(|step| &mut step.command);
                if let Some(command) = keyed::join(last, command) {
                    transaction.steps.push(command.into());
                }
                Ok(())
            }
            _ => {
                self.submit()?;
                self.group = Some((revision, self.on_branch(command)));
                Ok(())
            }
        }
    }

    fn submit(&mut self) -> Result<()> {
        if let Some((_, transaction)) = self.group.take() {
            let prepared = self.core.prepare(transaction);
            self.under_way.push_back(self.core.sequencer.submit(prepared));
        }
        if self.under_way.len() >= UNDER_WAY { self.wait_for_one() } else { Ok(()) }
    }

    fn wait_for_one(&mut self) -> Result<()> {
        if let Some(ticket) = self.under_way.pop_front() {
            self.reached = ticket.wait()?.revision;
        }
        Ok(())
    }

    /// Waits until all transactions so far are written.
    fn settle(&mut self) -> Result<()> {
        self.submit()?;
        while !self.under_way.is_empty() {
            self.wait_for_one()?;
        }
        Ok(())
    }

    /// Makes the branch and its tags visible in one transaction.
    fn finish(&mut self) -> Result<()> {
        self.settle()?;
        let tags = std::mem::take(&mut self.tags);
        self.report.tags = tags.len() as u64;
        let finish = BranchCommand::Finish { name: self.name.clone(), tags };
        self.report.revision = self.core.execute(self.on_branch(finish))?.revision;
        Ok(())
    }
}

#[cold]
fn deleted_meanwhile(name: &Name) -> Error {
    let message = format!("`{name}` was deleted while it was imported: import it again");
    Error::new(Code::BranchNotFound, message)
}

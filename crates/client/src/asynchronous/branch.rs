//! Async client: branches and tags of a served database.

use super::{
    AsyncCells, AsyncDatabase, AsyncInteractive, AsyncKeyed, AsyncOutbox, AsyncRecords, AsyncRuns,
    retry,
};
use crate::connection_pool::ConnectionPool;
use mainstay_model::wire::AdminRequest;
use mainstay_model::{Answer, At, BranchCommand, MAIN, MergeStrategy, Name, Result, Revision};
use std::sync::Arc;

/// A handle on one branch of a served database. Clones are cheap and refer to the same branch.
#[derive(Clone)]
pub struct AsyncBranch {
    link: Arc<ConnectionPool>,
    name: String,
}

impl AsyncBranch {
    /// The branch name that this handle was opened with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the cells of this branch.
    pub fn cells(&self) -> AsyncCells {
        AsyncCells::on(self.link.clone(), &self.name)
    }

    /// Returns the runs (event logs) of this branch.
    pub fn runs(&self) -> AsyncRuns {
        AsyncRuns::on(self.link.clone(), &self.name)
    }

    /// Returns a space of keyed state on this branch. The space is created by its first write or by
    /// [`AsyncKeyed::declare`].
    pub fn keyed(&self, space: &str) -> Result<AsyncKeyed> {
        AsyncKeyed::on(self.link.clone(), &self.name, space)
    }

    /// Returns the transactional outbox of this branch.
    pub fn outbox(&self) -> AsyncOutbox {
        AsyncOutbox::on(self.link.clone(), &self.name)
    }

    /// Returns the records of this branch.
    pub fn records(&self) -> AsyncRecords {
        AsyncRecords::on(self.link.clone(), &self.name)
    }

    /// Begins an interactive transaction on this branch.
    pub async fn begin(&self) -> Result<AsyncInteractive> {
        AsyncInteractive::begin(&self.link, &self.name).await
    }

    /// Runs a closure in a transaction on this branch and commits it. Retries both after each conflict, up
    /// to 1,000 times.
    pub async fn transaction<T>(
        &self,
        body: impl AsyncFnMut(&mut AsyncInteractive) -> Result<T>,
    ) -> Result<T> {
        retry(&self.link, &self.name, body).await
    }
}

impl AsyncDatabase {
    /// Opens a handle on a branch. Fails with `BranchNotFound` if no such branch exists.
    pub async fn branch(&self, name: &str) -> Result<AsyncBranch> {
        self.branch_info(name).await?;
        Ok(AsyncBranch { link: self.link.clone(), name: name.to_owned() })
    }

    async fn run_branch(&self, command: BranchCommand) -> Result<Answer> {
        self.link.run(MAIN, command.into()).await
    }

    async fn point(&self, at: At) -> Result<Option<Revision>> {
        match at {
            At::Latest => Ok(None),
            at => self.link.ask(AdminRequest::Resolve(at)).await.map(Some),
        }
    }

    /// Creates branch `name` as a copy of `from` at one point in time, and returns the revision of the
    /// fork.
    ///
    /// A fork takes constant time, regardless of the number of keys. Fails with `BranchExists` if the name
    /// is taken.
    pub async fn fork(&self, name: &str, from: &str, at: At) -> Result<Revision> {
        let name = Name::new(name)?;
        let from = Name::new(from)?;
        let at = self.point(at).await?;
        self.run_branch(BranchCommand::Fork { name, from, at }).await?.into_revision()
    }

    /// Deletes a branch. Returns whether it existed.
    pub async fn delete_branch(&self, name: &str) -> Result<bool> {
        let name = Name::new(name)?;
        self.run_branch(BranchCommand::Delete { name }).await?.into_did()
    }

    /// Renames a branch.
    pub async fn rename_branch(&self, name: &str, to: &str) -> Result<()> {
        let name = Name::new(name)?;
        let to = Name::new(to)?;
        self.run_branch(BranchCommand::Rename { name, to }).await.map(|_| ())
    }

    /// Merges the changes of branch `from` into branch `into`, in one transaction. Returns the revision of
    /// the merge.
    ///
    /// Under `Strict`, a conflict changes nothing: the merge fails with `MergeConflict`, and the error
    /// lists the keys.
    pub async fn merge(&self, from: &str, into: &str, strategy: MergeStrategy) -> Result<Revision> {
        let from = Name::new(from)?;
        let into = Name::new(into)?;
        self.run_branch(BranchCommand::Merge { from, into, strategy }).await?.into_revision()
    }

    /// Creates a tag that pins a revision of a branch, and returns that revision. Fails with `TagExists` if
    /// the name is taken.
    pub async fn tag(&self, name: &str, branch: &str, at: At) -> Result<Revision> {
        let name = Name::new(name)?;
        let branch = Name::new(branch)?;
        let at = self.point(at).await?;
        self.run_branch(BranchCommand::Tag { name, branch, at }).await?.into_revision()
    }

    /// Removes a tag. Returns whether it existed.
    pub async fn untag(&self, name: &str) -> Result<bool> {
        let name = Name::new(name)?;
        self.run_branch(BranchCommand::Untag { name }).await?.into_did()
    }
}

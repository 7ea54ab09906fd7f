//! Branches and tags of a served database.

use super::{
    AsyncCells, AsyncDatabase, AsyncInteractive, AsyncKeyed, AsyncOutbox, AsyncRecords, AsyncRuns,
    retry,
};
use crate::remote::connection_pool::ConnectionPool;
use crate::wire::AdminRequest;
use mainstay_model::{Answer, At, BranchCommand, MAIN, MergeStrategy, Name, Result, Revision};
use std::sync::Arc;

/// A handle on one branch.
#[derive(Clone)]
pub struct AsyncBranch {
    link: Arc<ConnectionPool>,
    name: String,
}

impl AsyncBranch {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its cells.
    pub fn cells(&self) -> AsyncCells {
        AsyncCells::on(self.link.clone(), &self.name)
    }

    /// Its runs.
    pub fn runs(&self) -> AsyncRuns {
        AsyncRuns::on(self.link.clone(), &self.name)
    }

    /// A space of keyed state on it; it is made by its first write, or declared.
    pub fn keyed(&self, space: &str) -> Result<AsyncKeyed> {
        AsyncKeyed::on(self.link.clone(), &self.name, space)
    }

    /// Its outbox.
    pub fn outbox(&self) -> AsyncOutbox {
        AsyncOutbox::on(self.link.clone(), &self.name)
    }

    /// Its records.
    pub fn records(&self) -> AsyncRecords {
        AsyncRecords::on(self.link.clone(), &self.name)
    }

    /// Begins an interactive transaction on it.
    pub async fn begin(&self) -> Result<AsyncInteractive> {
        AsyncInteractive::begin(&self.link, &self.name).await
    }

    /// Runs a closure in a transaction on it, again and again while it conflicts with others.
    pub async fn transaction<T>(
        &self,
        body: impl AsyncFnMut(&mut AsyncInteractive) -> Result<T>,
    ) -> Result<T> {
        retry(&self.link, &self.name, body).await
    }
}

impl AsyncDatabase {
    /// A handle on a branch.
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

    /// Makes a branch that starts as `from` was; gives the revision it starts at.
    pub async fn fork(&self, name: &str, from: &str, at: At) -> Result<Revision> {
        let (name, from) = (Name::new(name)?, Name::new(from)?);
        let at = self.point(at).await?;
        self.run_branch(BranchCommand::Fork { name, from, at }).await?.into_revision()
    }

    /// Deletes a branch; says whether there was one.
    pub async fn delete_branch(&self, name: &str) -> Result<bool> {
        let name = Name::new(name)?;
        self.run_branch(BranchCommand::Delete { name }).await?.into_did()
    }

    /// Gives a branch another name.
    pub async fn rename_branch(&self, name: &str, to: &str) -> Result<()> {
        let (name, to) = (Name::new(name)?, Name::new(to)?);
        self.run_branch(BranchCommand::Rename { name, to }).await.map(|_| ())
    }

    /// Brings the changes of one branch into another, in one transaction.
    pub async fn merge(&self, from: &str, into: &str, strategy: MergeStrategy) -> Result<Revision> {
        let (from, into) = (Name::new(from)?, Name::new(into)?);
        self.run_branch(BranchCommand::Merge { from, into, strategy }).await?.into_revision()
    }

    /// Pins a revision of a branch by name; gives the revision.
    pub async fn tag(&self, name: &str, branch: &str, at: At) -> Result<Revision> {
        let (name, branch) = (Name::new(name)?, Name::new(branch)?);
        let at = self.point(at).await?;
        self.run_branch(BranchCommand::Tag { name, branch, at }).await?.into_revision()
    }

    /// Removes a tag; says whether there was one.
    pub async fn untag(&self, name: &str) -> Result<bool> {
        let name = Name::new(name)?;
        self.run_branch(BranchCommand::Untag { name }).await?.into_did()
    }
}

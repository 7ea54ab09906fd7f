//! JSON forms of commands on branches and tags.

use mainstay::{BranchCommand, MergeStrategy, Name, Result, Revision};
use serde::Deserialize;
use utoipa::ToSchema;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkForm {
    /// The new branch.
    name: String,
    /// The branch it starts from.
    from: String,
    /// The revision it starts at; the newest without it.
    rev: Option<u64>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BranchForm {
    /// The branch.
    name: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FinishForm {
    /// The branch.
    name: String,
    /// Its tags.
    #[serde(default)]
    tags: Vec<PinForm>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PinForm {
    /// The tag.
    name: String,
    /// The revision it pins.
    rev: u64,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenameForm {
    /// The branch.
    name: String,
    /// Its new name.
    to: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MergeForm {
    /// The branch whose changes are wanted.
    from: String,
    /// The branch that receives them.
    into: String,
    /// What happens where both changed.
    #[serde(default)]
    strategy: StrategyForm,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TagForm {
    /// The tag.
    name: String,
    /// The branch.
    branch: String,
    /// The revision; the newest without it.
    rev: Option<u64>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UntagForm {
    /// The tag.
    name: String,
}

/// What a merge does with keys that both sides changed.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StrategyForm {
    /// Changes nothing and lists the keys.
    #[default]
    Strict,
    /// The source wins.
    Theirs,
    /// The target wins.
    Ours,
}

impl From<StrategyForm> for MergeStrategy {
    fn from(form: StrategyForm) -> MergeStrategy {
        match form {
            StrategyForm::Strict => MergeStrategy::Strict,
            StrategyForm::Theirs => MergeStrategy::Theirs,
            StrategyForm::Ours => MergeStrategy::Ours,
        }
    }
}

impl ForkForm {
    pub fn command(self) -> Result<BranchCommand> {
        let name = Name::new(&self.name)?;
        let from = Name::new(&self.from)?;
        Ok(BranchCommand::Fork { name, from, at: self.rev })
    }
}

impl BranchForm {
    pub fn named(self) -> Result<Name> {
        Name::new(&self.name)
    }
}

impl FinishForm {
    pub fn command(self) -> Result<BranchCommand> {
        let tags: Result<Vec<(Name, Revision)>> =
            self.tags.into_iter().map(|pin| Ok((Name::new(&pin.name)?, pin.rev))).collect();
        Ok(BranchCommand::Finish { name: Name::new(&self.name)?, tags: tags? })
    }
}

impl RenameForm {
    pub fn command(self) -> Result<BranchCommand> {
        Ok(BranchCommand::Rename { name: Name::new(&self.name)?, to: Name::new(&self.to)? })
    }
}

impl MergeForm {
    pub fn command(self) -> Result<BranchCommand> {
        let from = Name::new(&self.from)?;
        let into = Name::new(&self.into)?;
        Ok(BranchCommand::Merge { from, into, strategy: self.strategy.into() })
    }
}

impl TagForm {
    pub fn command(self) -> Result<BranchCommand> {
        let name = Name::new(&self.name)?;
        let branch = Name::new(&self.branch)?;
        Ok(BranchCommand::Tag { name, branch, at: self.rev })
    }
}

impl UntagForm {
    pub fn command(self) -> Result<BranchCommand> {
        Ok(BranchCommand::Untag { name: Name::new(&self.name)? })
    }
}

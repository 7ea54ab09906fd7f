//! Canonical bytes of commands on branches.

use super::Out;
use crate::{BranchCommand, MergeStrategy};

impl Out<'_> {
    pub(super) fn branch(&mut self, command: &BranchCommand) {
        match command {
            BranchCommand::Fork { name, from, at } => {
                self.named(32, name.as_str());
                self.text(from.as_str());
                self.maybe(*at);
            }
            BranchCommand::Create { name } => self.named(33, name.as_str()),
            BranchCommand::Delete { name } => self.named(34, name.as_str()),
            BranchCommand::Rename { name, to } => {
                self.named(35, name.as_str());
                self.text(to.as_str());
            }
            BranchCommand::Merge { from, into, strategy } => {
                self.named(36, from.as_str());
                self.text(into.as_str());
                self.tag(match strategy {
                    MergeStrategy::Strict => 1,
                    MergeStrategy::Theirs => 2,
                    MergeStrategy::Ours => 3,
                });
            }
            BranchCommand::Tag { name, branch, at } => {
                self.named(37, name.as_str());
                self.text(branch.as_str());
                self.maybe(*at);
            }
            BranchCommand::Untag { name } => self.named(38, name.as_str()),
            BranchCommand::Import { name } => self.named(39, name.as_str()),
            BranchCommand::Finish { name, tags } => {
                self.named(40, name.as_str());
                self.number(tags.len() as u64);
                for (tag, revision) in tags {
                    self.text(tag.as_str());
                    self.number(*revision);
                }
            }
        }
    }
}

//! Branches and tags as readers see them.

use crate::lifecycle::engine::Engine;
use mainstay_model::{BranchInfo, TagInfo};

/// All living branches, by name.
pub fn branches(core: &Engine) -> Vec<BranchInfo> {
    // Lock the catalog before resolving the revision: branches that readers no longer see may be
    // removed while it is unlocked.
    let catalog = core.state.catalog.read();
    let published = core.sequencer.published();
    let mut branches: Vec<BranchInfo> = catalog
        .living(published)
        .map(|branch| {
            let parent = branch.parent.and_then(|(parent, _)| catalog.name_at(parent, published));
            BranchInfo {
                name: branch.name_at(published).to_owned(),
                id: branch.id,
                parent: parent.map(str::to_owned),
                fork_revision: branch.parent.map_or(0, |(_, fork)| fork),
                created: branch.created_stamp,
                depth: catalog.depth(branch.id),
                children: catalog.children(branch.id, published).count(),
            }
        })
        .collect();
    branches.sort_by(|a, b| a.name.cmp(&b.name));
    branches
}

/// All tags, by name.
pub fn tags(core: &Engine) -> Vec<TagInfo> {
    // Lock the catalog before reading the revision: tags that readers no longer see may be removed
    // while it is unlocked.
    let catalog = core.state.catalog.read();
    let published = core.sequencer.published();
    let tags = catalog.tags_at(published).into_iter();
    tags.map(|(name, tag)| TagInfo {
        name: name.clone(),
        branch: catalog.name_at(tag.branch, published).unwrap_or_default().to_owned(),
        revision: tag.revision,
    })
    .collect()
}

//! Seed-corpus tests for fuzz targets. Every crate with a module `fuzz` includes this file, feeds each seed
//! of its targets, both unchanged and mutated, and checks that no target and no seed directory is forgotten.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The limit on the size of all seeds together.
const SEEDS_LIMIT_BYTES: u64 = 400 << 10;

/// The directory `fuzz` of the workspace, as a path from any crate.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// The directory of a target's seeds.
pub(super) fn seeds(target: &str) -> PathBuf {
    root().join("seeds").join(target)
}

fn names(directory: &Path) -> BTreeSet<String> {
    let files = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

/// Feeds all seeds of a target to `body`. Returns the number of seeds.
pub(super) fn feed(target: &str, mut body: impl FnMut(&[u8])) -> usize {
    let files = fs::read_dir(seeds(target)).unwrap().map(|file| file.unwrap().path());
    files.map(|file| body(&fs::read(file).unwrap())).count()
}

/// A mutation of a seed: bytes that are replaced, and a position to truncate at.
#[derive(Clone, Debug)]
pub(super) struct Change(Vec<(Index, u8)>, Option<Index>);

impl Change {
    pub fn of(&self, bytes: &[u8]) -> Vec<u8> {
        let Change(changes, cut) = self;
        let mut bytes = bytes.to_vec();
        if !bytes.is_empty() {
            changes.iter().for_each(|(at, byte)| *at.get_mut(&mut bytes) = *byte);
            bytes.truncate(cut.map_or(bytes.len(), |cut| cut.index(bytes.len())));
        }
        bytes
    }
}

/// Replaces 1 to 5 bytes, and may truncate the end.
pub(super) fn changes() -> impl Strategy<Value = Change> {
    let bytes = vec((any::<Index>(), any::<u8>()), 1..6);
    (bytes, option::of(any::<Index>())).prop_map(|(bytes, cut)| Change(bytes, cut))
}

/// Fails unless the targets implemented in this crate are exactly those that its tests feed, each target has
/// seeds, and all seeds together are within the size limit.
pub(super) fn check_targets(module: &str, fed: &[&str]) {
    let targets = names(&root().join("fuzz_targets"));
    assert_eq!(names(&root().join("seeds")), targets, "seeds and targets");
    let is_here = |name: &&String| {
        let file = root().join("fuzz_targets").join(name).with_extension("rs");
        fs::read_to_string(file).unwrap().contains(&format!("{module}::{name}("))
    };
    let here: Vec<&str> = targets.iter().filter(is_here).map(String::as_str).collect();
    let mut fed = fed.to_vec();
    fed.sort_unstable();
    assert_eq!(here, fed, "targets of this crate, and those that are fed");
    let list = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for name in here {
        assert!(list.contains(&format!("name = \"{name}\"")), "{name} is not in the list");
        assert!(feed(name, |_| {}) > 0, "{name} has no seeds");
    }
    let sizes = targets.iter().flat_map(|name| fs::read_dir(seeds(name)).unwrap());
    let bytes: u64 = sizes.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes < SEEDS_LIMIT_BYTES, "seeds take {bytes} bytes");
}

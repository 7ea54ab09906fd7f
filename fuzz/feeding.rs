//! Seeds for the tests of all crates that have a module `fuzz`: each of them includes this file, feeds every seed of its
//! targets, as it is and changed, and checks that no target and no seeds are forgotten.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// All seeds together stay small.
const SEEDS_LIMIT_BYTES: u64 = 400 << 10;

/// Where fuzzing lives, seen from any crate.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Where the seeds of a target are.
pub(super) fn seeds(target: &str) -> PathBuf {
    root().join("seeds").join(target)
}

fn names(directory: &Path) -> BTreeSet<String> {
    let files = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

/// Feeds all seeds of a target; gives how many there were.
pub(super) fn feed(target: &str, mut body: impl FnMut(&[u8])) -> usize {
    let files = fs::read_dir(seeds(target)).unwrap().map(|file| file.unwrap().path());
    files.map(|file| body(&fs::read(file).unwrap())).count()
}

/// A change of a seed.
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

/// Some bytes are others, and the end may be missing.
pub(super) fn changes() -> impl Strategy<Value = Change> {
    let bytes = vec((any::<Index>(), any::<u8>()), 1..6);
    (bytes, option::of(any::<Index>())).prop_map(|(bytes, cut)| Change(bytes, cut))
}

/// Fails unless the targets whose bodies are in this crate are those that its tests feed, each has seeds, and all seeds
/// together are small.
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

//! The folders of the engine are layers: each uses those below it and none above.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// From the lowest to the highest. A folder of `src/` that is not among them fails the test.
const LAYERS: &[&str] = &[
    "base",
    "key",
    "fs",
    "log",
    "storage",
    "mvcc",
    "apply",
    "commit",
    "lifecycle",
    "read",
    "feed",
    "tools",
    "wire",
    "handle",
    "remote",
];

/// Not part of the product: the bodies of fuzz targets.
const OTHERS: &[&str] = &["fuzz", "lib"];

/// Upward uses that are left: they go when the handles and the network client are crates of their own. An entry that nothing
/// needs any more fails the test.
const LEFT: &[(&str, &str)] = &[("commit", "remote"), ("handle", "remote")];

fn height(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|name| *name == layer)
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The modules of the crate's root that a source names, with the lines: those of its tests and comments do not count.
fn uses(source: &str) -> impl Iterator<Item = (usize, &str)> {
    let product = source.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines =
        product.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    lines.flat_map(|(number, line)| {
        let paths = line.split("crate::").skip(1);
        let module = |path: &str| path.find(|c: char| !c.is_alphanumeric() && c != '_');
        paths.map(move |path| (number + 1, &path[..module(path).unwrap_or(path.len())]))
    })
}

#[test]
fn no_layer_uses_one_above_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 200, "only {} files of the engine were found", files.len());
    let (mut upward, mut left) = (Vec::new(), BTreeSet::new());
    for path in &files {
        let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        let layer = name.split(['/', '.']).next().unwrap();
        let Some(from) = height(layer) else {
            assert!(OTHERS.contains(&layer), "{name}: `{layer}` is no layer; add it to LAYERS");
            continue;
        };
        if name.ends_with("tests.rs") || name.contains("/tests/") {
            continue;
        }
        let source = fs::read_to_string(path).unwrap();
        for (line, module) in uses(&source) {
            if height(module).is_none_or(|to| to <= from) {
                continue;
            }
            match LEFT.iter().find(|edge| **edge == (layer, module)) {
                Some(edge) => drop(left.insert(edge)),
                None => upward.push(format!("{name}:{line}: `{layer}` uses `{module}`")),
            }
        }
    }
    assert!(
        upward.is_empty(),
        "a layer uses one above it; move the type or function down, or pass it in:\n{}",
        upward.join("\n")
    );
    let needless: Vec<_> = LEFT.iter().filter(|edge| !left.contains(edge)).collect();
    assert!(needless.is_empty(), "these upward uses are gone; take them out of LEFT: {needless:?}");
}

//! Layering test: each folder of the engine uses only the folders below it.

use std::fs;
use std::path::{Path, PathBuf};

/// Layers from the lowest to the highest. A folder of `src/` that is missing here fails the test.
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
];

/// Modules outside of the layers: the crate root.
const OTHERS: &[&str] = &["lib"];

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

/// Returns the paths, without extension, of the test modules that a file declares.
fn test_modules(path: &Path) -> Vec<PathBuf> {
    let source = fs::read_to_string(path).unwrap();
    let is_mod = path.file_stem().is_some_and(|stem| stem == "mod");
    let directory = if is_mod { path.with_file_name("") } else { path.with_extension("") };
    let declared = source.split("#[cfg(test)]\nmod ").skip(1);
    let names = declared.filter_map(|rest| rest.split_once(';').map(|(name, _)| name));
    names.filter(|name| !name.contains('{')).map(|name| directory.join(name)).collect()
}

/// Returns the source without comments and test modules.
fn product(source: &str) -> String {
    let mut kept = String::new();
    let mut lines = source.lines().peekable();
    while let Some(line) = lines.next() {
        let is_test =
            line == "#[cfg(test)]" && lines.peek().is_some_and(|next| next.starts_with("mod "));
        if is_test {
            // Skips `mod tests;`, or everything up to the closing brace of the module.
            if lines.next().is_some_and(|module| module.ends_with('{')) {
                lines.by_ref().take_while(|line| *line != "}").for_each(drop);
            }
        } else if !line.trim_start().starts_with("//") {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// Returns the first names of a path or of a group of paths: `a` and `b` for `{a::{x, y}, b}`.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(group) = path.trim_start().strip_prefix('{') else { return vec![name(path)] };
    let mut depth = 1;
    let mut names = Vec::new();
    let mut begins = 0;
    for (place, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && c == ',') {
            names.push(name(&group[begins..place]));
            begins = place + 1;
        }
        if depth == 0 {
            break;
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Returns the names in the crate root that a module uses, through `crate::` or enough `super::`.
fn uses(source: &str, depth: usize) -> Vec<String> {
    let source = product(source);
    let to_root = "super::".repeat(depth);
    let by_crate = source.split("crate::").skip(1);
    let by_super = source.split(to_root.as_str()).skip(1);
    let by_super = by_super.filter(|path| !path.starts_with("super::"));
    by_crate.chain(by_super).flat_map(first_names).collect()
}

/// Returns the depth of a file's module in the crate: 1 for `storage/mod.rs`, 3 for `storage/lsm/disk.rs`.
fn depth(file: &str) -> usize {
    file.trim_end_matches("/mod.rs").split('/').count()
}

#[test]
fn no_layer_uses_one_above_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 100, "only {} files of the engine were found", files.len());
    let tests: Vec<PathBuf> = files.iter().flat_map(|path| test_modules(path)).collect();
    let mut upward = Vec::new();
    for path in &files {
        let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        let layer = name.split(['/', '.']).next().unwrap();
        let Some(from) = height(layer) else {
            assert!(OTHERS.contains(&layer), "{name}: `{layer}` is no layer; add it to LAYERS");
            continue;
        };
        if tests.iter().any(|test| path.with_extension("").starts_with(test)) {
            continue;
        }
        let source = fs::read_to_string(path).unwrap();
        for used in uses(&source, depth(&name)) {
            let Some(to) = height(&used) else {
                // `crate::Database` would be a hidden upward use.
                upward
                    .push(format!("{name}: `{used}` is no layer; use it by the path of its layer"));
                continue;
            };
            if to > from {
                upward.push(format!("{name}: `{layer}` uses `{used}`"));
            }
        }
    }
    assert!(
        upward.is_empty(),
        "a layer uses one above it; move the type or function down, or pass it in:\n{}",
        upward.join("\n")
    );
}

#[test]
fn every_way_to_name_a_layer_is_seen() {
    for (source, named) in [
        ("use crate::handle::{a, b};", &["handle"][..]),
        ("let x = crate::handle::cells::x();", &["handle"]),
        ("pub(in crate::handle) fn x() {}", &["handle"]),
        ("use crate::{handle::{a, b}, log};", &["handle", "log"]),
        ("use crate::{\n    log::Frame,\n    Database,\n};", &["log", "Database"]),
        ("use super::super::super::handle::db;", &["handle"]),
        ("use super::super::index;", &[]),
        ("#[cfg(test)]\nmod tests;\nuse crate::handle::db;", &["handle"]),
        ("#[cfg(test)]\nmod tests {\n    use crate::handle;\n}\nuse crate::log::Log;", &["log"]),
        ("/// See [`crate::handle`].\nfn x() {}", &[]),
    ] {
        assert_eq!(uses(source, depth("storage/lsm/disk.rs")), named, "{source}");
    }
    assert_eq!(uses("use super::handle::db;", depth("storage/mod.rs")), ["handle"]);
}

//! Style test over the whole repository: layers of crates, names, comments and packing.
//!
//! Some rules have a limit per crate that is above zero, because older code breaks them. Such a limit may only fall: the test also fails
//! where a crate has become better than its limit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crates from the lowest to the highest layer. A crate may depend on those before it.
const CRATES: &[&str] = &[
    "model",
    "state-machine",
    "client",
    "engine",
    "mainstay",
    "jobs",
    "runs",
    "sessions",
    "streams",
    "server",
    "cli",
    "conformance",
    "sim",
    "bench",
];

/// The most modules in a crate's root.
const ROOT_MODULES: usize = 15;
/// Crates whose root has more.
const MORE_ROOT_MODULES: &[(&str, usize)] =
    &[("cli", 46), ("mainstay", 18), ("model", 25), ("server", 20), ("state-machine", 19)];

/// Names that say nothing as the name of a type: bare participles, pronouns and adverbs.
const BARE_NAMES: &[&str] = &[
    "Asked", "Behind", "Changed", "Done", "Former", "Found", "Gathered", "Given", "Gone",
    "Handled", "Held", "Here", "Inside", "Kept", "Known", "Left", "Lent", "Made", "Once", "Owed",
    "Reached", "Said", "Seen", "Settled", "Taken", "There", "Together", "Told", "Wanted", "Which",
    "Written", "Wrote",
];
/// How many types of a crate still have such a name.
const BARE_NAMES_LEFT: &[(&str, usize)] = &[
    ("bench", 2),
    ("cli", 1),
    ("conformance", 1),
    ("mainstay", 1),
    ("model", 8),
    ("server", 16),
    ("sim", 14),
    ("state-machine", 1),
];

/// How many type names occur more than once in a crate.
const REPEATED_NAMES_LEFT: &[(&str, usize)] = &[
    ("bench", 6),
    ("cli", 17),
    ("conformance", 2),
    ("mainstay", 1),
    ("model", 5),
    ("server", 35),
    ("sim", 23),
];

/// Tuple lets of unrelated values that are left, mostly because a later value uses an earlier name.
const TUPLE_LETS_LEFT: usize = 32;

/// "what" per 10,000 words of doc comments, and doc comments per 1,000 that begin with What, Who or Whoever. The texts of `--help`, of
/// settings and of the OpenAPI document are among them.
const WHAT_PER_10_000: usize = 20;
const WHAT_STARTS_PER_1_000: usize = 12;

/// The longest sentence of README.md and ARCHITECTURE.md, in words.
const SENTENCE_WORDS: usize = 40;

struct Source {
    krate: String,
    name: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn walk(directory: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// All Rust files below `crates/*/src`, or all of `crates`.
fn sources(only_src: bool) -> Vec<Source> {
    let crates = root().join("crates");
    let mut all = Vec::new();
    for krate in CRATES {
        let home = crates.join(krate);
        let mut files = Vec::new();
        if only_src {
            walk(&home.join("src"), &mut files);
        } else {
            walk(&home, &mut files);
        }
        for path in files {
            let name = path.strip_prefix(&crates).unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).unwrap();
            all.push(Source { krate: (*krate).to_owned(), name, text });
        }
    }
    assert!(all.len() > 1_000, "only {} files were found", all.len());
    all
}

/// Compares counts by crate with the limits, which may only fall.
fn assert_limits(
    what: &str,
    cure: &str,
    counts: &BTreeMap<String, Vec<String>>,
    limits: &[(&str, usize)],
) {
    let mut problems = String::new();
    for krate in CRATES {
        let found = counts.get(*krate).map(Vec::as_slice).unwrap_or_default();
        let count = found.len();
        let limit = limits.iter().find(|(name, _)| name == krate).map_or(0, |(_, limit)| *limit);
        if count > limit {
            let places = found.join("\n  ");
            problems.push_str(&format!(
                "{krate}: {count} {what}, {limit} are allowed; {cure}:\n  {places}\n"
            ));
        } else if count < limit {
            problems.push_str(&format!(
                "{krate}: only {count} {what} are left: lower its limit in tidy.rs\n"
            ));
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

/// The name of the type that a line declares, if it declares one.
fn declared_type(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let rest = ["struct ", "enum ", "trait "].iter().find_map(|word| line.strip_prefix(word))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(&rest[..end])
}

/// The source up to its test module.
fn product(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text)
}

#[test]
fn crates_depend_on_lower_ones_alone() {
    let height = |name: &str| CRATES.iter().position(|krate| *krate == name);
    for (place, krate) in CRATES.iter().enumerate() {
        let manifest =
            fs::read_to_string(root().join("crates").join(krate).join("Cargo.toml")).unwrap();
        let dependencies = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
        let dependencies = dependencies.split("\n[").next().unwrap_or_default();
        for line in dependencies.lines() {
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            let name = if name == "mainstay" {
                name
            } else {
                name.strip_prefix("mainstay-").unwrap_or_default()
            };
            let Some(used) = height(name) else { continue };
            assert!(
                used < place,
                "{krate} depends on {name}, which is not below it: move what it needs down"
            );
        }
        assert!(
            *krate != "client" || !dependencies.contains("mainstay-engine"),
            "the network client stands on the model alone"
        );
    }
    let listed: BTreeSet<String> = CRATES.iter().map(|krate| (*krate).to_owned()).collect();
    let there: BTreeSet<String> = fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(there, listed, "add a new crate to CRATES in tidy.rs, at its layer");
}

#[test]
fn crate_roots_have_few_modules() {
    for krate in CRATES {
        let src = root().join("crates").join(krate).join("src");
        let modules: BTreeSet<String> = fs::read_dir(src)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .filter(|name| name != "lib" && name != "main")
            .collect();
        let more =
            MORE_ROOT_MODULES.iter().find(|(name, _)| name == krate).map(|(_, limit)| *limit);
        let limit = more.unwrap_or(ROOT_MODULES);
        let count = modules.len();
        assert!(
            count <= limit,
            "{krate} has {count} modules in its root, {limit} are allowed: group them in folders"
        );
        assert!(
            more.is_none_or(|more| more == count),
            "{krate}: lower its limit to {count} in tidy.rs"
        );
    }
}

#[test]
fn types_have_names_that_say_something() {
    let mut bare: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for Source { krate, name, text } in sources(true) {
        for found in
            text.lines().filter_map(declared_type).filter(|found| BARE_NAMES.contains(found))
        {
            bare.entry(krate.clone()).or_default().push(format!("{found} in {name}"));
        }
    }
    assert_limits(
        "types with a bare name",
        "name them by the noun of a textbook",
        &bare,
        BARE_NAMES_LEFT,
    );
}

#[test]
fn a_type_name_occurs_once_per_crate() {
    let mut places: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for Source { krate, name, text } in sources(true) {
        let top_level = product(&text).lines().filter(|line| !line.starts_with(' '));
        for found in top_level.filter_map(declared_type) {
            places.entry((krate.clone(), found.to_owned())).or_default().push(name.clone());
        }
    }
    let mut repeated: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for ((krate, name), files) in places.into_iter().filter(|(_, files)| files.len() > 1) {
        repeated.entry(krate).or_default().push(format!("{name} in {}", files.join(", ")));
    }
    assert_limits(
        "names of several types",
        "give each its own name",
        &repeated,
        REPEATED_NAMES_LEFT,
    );
}

/// The text of a doc comment's line, without code and diagrams.
fn doc_text(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?.trim_start();
    (!text.starts_with("```") && !text.starts_with(['|', '┌', '│', '└'])).then_some(text)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphabetic() && c != '\'').filter(|word| !word.is_empty())
}

fn begins_with_what(text: &str) -> bool {
    matches!(words(text).next(), Some("What" | "Who" | "Whoever" | "Whom"))
}

#[test]
fn doc_comments_are_plain_english() {
    let mut count = 0;
    let mut whats = 0;
    let mut comments = 0;
    let mut starts = Vec::new();
    for Source { name, text, .. } in sources(false) {
        let mut is_inside = false;
        for line in text.lines() {
            let Some(doc) = doc_text(line) else {
                is_inside = false;
                continue;
            };
            if !is_inside {
                comments += 1;
                if begins_with_what(doc) {
                    starts.push(format!("{name}: {doc}"));
                }
            }
            is_inside = true;
            count += words(doc).count();
            whats += words(doc).filter(|word| word.eq_ignore_ascii_case("what")).count();
        }
    }
    assert!(
        whats * 10_000 <= count * WHAT_PER_10_000,
        "{whats} times \"what\" in {count} words of doc comments: name the thing instead"
    );
    assert!(
        starts.len() * 1_000 <= comments * WHAT_STARTS_PER_1_000,
        "{} of {comments} doc comments begin with What or Who; begin with a verb or a noun:\n  {}",
        starts.len(),
        starts.iter().take(20).cloned().collect::<Vec<_>>().join("\n  ")
    );
}

fn is_match_on_bool(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("true => ") || line.starts_with("true if ")
}

fn is_tuple_let(line: &str) -> bool {
    let Some((names, values)) =
        line.trim_start().strip_prefix("let (").and_then(|rest| rest.split_once(") = ("))
    else {
        return false;
    };
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c == ' ');
    // Calls that return a tuple, and blocks, are no tuples of values.
    names.split(", ").all(is_name) && names.contains(", ") && values.ends_with(");")
}

#[test]
fn code_is_not_packed() {
    let mut matches = Vec::new();
    let mut lets = Vec::new();
    for Source { name, text, .. } in sources(false) {
        for (number, line) in text.lines().enumerate().filter(|_| !name.ends_with("tests/tidy.rs"))
        {
            let place = || format!("{name}:{}: {}", number + 1, line.trim());
            if is_match_on_bool(line) {
                matches.push(place());
            }
            if is_tuple_let(line) {
                lets.push(place());
            }
        }
    }
    assert!(matches.is_empty(), "`match` on a bool, write `if`:\n  {}", matches.join("\n  "));
    assert!(
        lets.len() == TUPLE_LETS_LEFT,
        "{} tuple lets instead of {TUPLE_LETS_LEFT}; write one `let` for each value, and lower the limit where there are fewer:\n  {}",
        lets.len(),
        lets.join("\n  ")
    );
}

fn has_strong_ordering(line: &str) -> bool {
    let strong = ["SeqCst", "Acquire", "Release", "AcqRel"];
    !line.trim_start().starts_with("//")
        && strong.iter().any(|order| line.contains(&format!("Ordering::{order}")))
}

fn explains_ordering(text: &str) -> bool {
    let words =
        ["SeqCst", "Acquire", "Release", "AcqRel", "order", "visible", "airs with", "before"];
    let comments =
        text.lines().filter_map(|line| line.split_once("//").map(|(_, comment)| comment));
    comments.into_iter().any(|comment| words.iter().any(|word| comment.contains(word)))
}

#[test]
fn memory_orderings_have_a_reason() {
    for Source { name, text, .. } in sources(true) {
        assert!(
            !text.lines().any(has_strong_ordering) || explains_ordering(&text),
            "{name} has an ordering other than Relaxed and no comment that says why"
        );
    }
}

/// The sentences of a document, without code, tables, links and headings.
fn sentences(document: &str) -> Vec<String> {
    let mut is_code = false;
    let mut blocks = vec![String::new()];
    for line in document.lines() {
        let line = line.trim();
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let is_item = line.starts_with("- ") || line.starts_with("* ");
        let is_apart = line.is_empty() || line.starts_with(['#', '|', '<', '`']) || is_code;
        if is_apart || is_item {
            blocks.push(String::new());
        }
        if !is_apart && let Some(block) = blocks.last_mut() {
            block.push_str(line);
            block.push(' ');
        }
    }
    let ends = [". ", ": ", "? ", "! "];
    let split = |block: String| {
        let marked = ends.iter().fold(block, |text, end| text.replace(end, "\n"));
        marked.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    blocks.into_iter().flat_map(split).collect()
}

#[test]
fn documents_have_short_sentences() {
    for document in ["README.md", "ARCHITECTURE.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap();
        for sentence in sentences(&text) {
            let count = sentence.split_whitespace().count();
            assert!(
                count <= SENTENCE_WORDS,
                "{document}: a sentence of {count} words, split it: {sentence}"
            );
        }
    }
}

#[test]
fn each_rule_sees_what_breaks_it() {
    assert_eq!(declared_type("pub(crate) struct Told<'a> {"), Some("Told"));
    assert_eq!(declared_type("    enum Kept {"), Some("Kept"));
    assert_eq!(declared_type("let structure = 1;"), None);
    assert!(begins_with_what("What is read.") && !begins_with_what("Returns the value."));
    assert_eq!(doc_text("    /// The value."), Some("The value."));
    assert_eq!(doc_text("// not a doc comment"), None);
    assert!(is_match_on_bool("    true => 1,") && !is_match_on_bool("    Some(true) => 1,"));
    assert!(is_tuple_let("let (a, mut b) = (1, 2);") && !is_tuple_let("let (a, b) = split(c);"));
    assert!(has_strong_ordering("x.load(Ordering::Acquire)"));
    assert!(!has_strong_ordering("x.load(Ordering::Relaxed)"));
    assert!(
        explains_ordering("// Pairs with the Release store.\n")
            && !explains_ordering("let x = 1;\n")
    );
    let long = "word ".repeat(41);
    assert_eq!(
        sentences(&format!("# A title\n\n{long}\nend.\n"))[0].split_whitespace().count(),
        42
    );
}

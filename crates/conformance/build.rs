//! Registers the conformance cases: finds them in the source, and writes their tables and tests.
//!
//! A case is a public function of a file in one of these directories. A file `mod.rs` has no cases.
//!
//! ```text
//!   src/cases/AREA/FILE.rs       pub fn name(w: &mut TestDb)        AREA::FILE::name
//!   src/stores/records/FILE.rs   pub fn name(s: &TestRecords<'_>)   FILE::name
//!   src/stores/runs/FILE.rs      pub fn name(s: &TestRuns<'_>)      FILE::name
//!   src/stores/keyed/FILE.rs     pub fn name(s: &TestSpace<'_>)     FILE::name
//! ```
//!
//! A line `Requires: Ttl, ManualClock.` in the documentation of a file or of a case names requirements of
//! the case. A line `Lacks: Ttl.` limits a case to stores that do not meet the requirement.
//!
//! The output has tables of the cases, and macros that define a test for each case. A test calls the
//! function `run` of the module around it with the name of its case.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Areas of cells, of strings and of all kinds of state. Their tests have no module for the area.
const COMMON: [&str; 8] =
    ["cells", "strings", "transactions", "branches", "time", "feed", "limits", "durability"];

/// Areas of one kind of state. Their tests are in a module with the name of the area.
const AREAS: [&str; 4] = ["records", "runs", "outbox", "keyed"];

/// Contracts of stores: directory, prefix of names in the output, requirements, trait, attribute.
const CONTRACTS: [[&str; 5]; 3] = [
    ["records", "record", "RecordRequirement", "RecordStore", ""],
    ["runs", "run", "RunRequirement", "RunStore", ""],
    ["keyed", "keyed", "KeyedRequirement", "KeyedState", "#[cfg(feature = \"keyed-stores\")]\n"],
];

#[derive(Clone, Default)]
struct Case {
    /// The module of the file, as a path in the crate.
    module: String,
    file: String,
    function: String,
    /// The registered name.
    name: String,
    requires: Vec<String>,
    lacks: Vec<String>,
}

fn main() {
    println!("cargo::rerun-if-changed=src/cases");
    println!("cargo::rerun-if-changed=src/stores");
    let out = database() + &CONTRACTS.map(contract).concat();
    let directory = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(directory.join("registry.rs"), out).expect("the directory is writable");
}

/// The table and the tests of the engine's cases.
fn database() -> String {
    let common: Vec<Case> = COMMON.iter().flat_map(|area| cases("cases", area)).collect();
    let areas = AREAS.map(|area| (area, cases("cases", area)));
    let all = common.iter().chain(areas.iter().flat_map(|(_, cases)| cases));
    let table = table("DATABASE_CASES", "cases::DatabaseCase", "cases::DatabaseRequirement", all);
    let mut anywhere = tests(&common, false);
    let mut on_disk = module("reopened", &tests(&common, true));
    for (area, cases) in &areas {
        anywhere += &module(area, &tests(cases, false));
        on_disk += &module(&format!("reopened_{area}"), &tests(cases, true));
    }
    table + &exported("database_tests", &anywhere) + &exported("disk_tests", &on_disk)
}

/// The table and the tests of a contract's cases.
fn contract([directory, prefix, requirement, contract, attribute]: [&str; 5]) -> String {
    let cases = cases("stores", directory);
    let name = format!("{}_STORE_CASES", prefix.to_uppercase());
    let case = format!("suite::StoreCase<dyn crate::{contract}>");
    let requirement = format!("stores::{directory}::{requirement}");
    let table = table(&name, &case, &requirement, cases.iter());
    let tests = exported(&format!("{prefix}_store_tests"), &tests(&cases, false));
    format!("{attribute}{table}{attribute}{tests}")
}

/// The cases of a directory, by file and by their order in the file.
fn cases(root: &str, area: &str) -> Vec<Case> {
    let directory = Path::new("src").join(root).join(area);
    let entries = fs::read_dir(&directory).expect("the directory of an area exists");
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("the directory is readable").path()).collect();
    files.sort();
    files.retain(|file| !file.ends_with("mod.rs"));
    files.iter().flat_map(|file| cases_of(file, root, area)).collect()
}

/// The cases of a file.
fn cases_of(path: &Path, root: &str, area: &str) -> Vec<Case> {
    let file = path.file_stem().expect("it is a file").to_string_lossy().into_owned();
    let module = format!("{root}::{area}::{file}");
    // The names of engine cases begin with their area; a contract is a suite of its own.
    let prefix = if root == "cases" { format!("{area}::{file}") } else { file.clone() };
    let mut of_file = Case { module, file, ..Case::default() };
    let mut next = of_file.clone();
    let mut found = Vec::new();
    for line in fs::read_to_string(path).expect("the file is readable").lines() {
        if let Some(text) = line.strip_prefix("//! ") {
            of_file.read_requirements(text);
            next = of_file.clone();
        } else if let Some(text) = line.strip_prefix("/// ") {
            next.read_requirements(text);
        } else if let Some((function, _)) =
            line.strip_prefix("pub fn ").and_then(|rest| rest.split_once('('))
        {
            next.function = function.to_owned();
            next.name = format!("{prefix}::{function}");
            found.push(std::mem::replace(&mut next, of_file.clone()));
        } else if !line.starts_with('#') {
            next = of_file.clone();
        }
    }
    found
}

impl Case {
    /// Reads the requirements of a line of documentation, if it has any.
    fn read_requirements(&mut self, line: &str) {
        let names = |list: &str| -> Vec<String> {
            list.trim_end_matches('.').split(", ").map(str::to_owned).collect()
        };
        if let Some(list) = line.strip_prefix("Requires: ") {
            self.requires.extend(names(list));
        } else if let Some(list) = line.strip_prefix("Lacks: ") {
            self.lacks.extend(names(list));
        }
    }

    fn is_on_disk(&self) -> bool {
        self.requires.iter().any(|requirement| requirement == "Disk")
    }
}

/// A constant with all cases.
fn table<'c>(
    name: &str,
    case: &str,
    requirement: &str,
    cases: impl Iterator<Item = &'c Case>,
) -> String {
    let variant = |name: &String| format!("crate::{requirement}::{name}, ");
    let mut out = format!("pub(crate) const {name}: &[crate::{case}] = &[\n");
    for Case { module, function, name, requires, lacks, .. } in cases {
        let requires: String = requires.iter().map(variant).collect();
        let lacks: String = lacks.iter().map(variant).collect();
        out += &format!(
            "crate::suite::Case {{ name: \"{name}\", requires: &[{requires}], lacks: &[{lacks}], \
             body: crate::{module}::{function} }},\n"
        );
    }
    out + "];\n"
}

/// A test for each case with or without a disk, in one module per file.
fn tests(cases: &[Case], on_disk: bool) -> String {
    let mut out = String::new();
    let cases: Vec<&Case> = cases.iter().filter(|case| case.is_on_disk() == on_disk).collect();
    for file in cases.chunk_by(|one, next| one.module == next.module) {
        let test = |Case { function, name, .. }: &&Case| {
            format!("#[test] fn {function}() {{ super::run(\"{name}\"); }}\n")
        };
        let tests: String = file.iter().map(test).collect();
        out += &format!("mod {} {{\n{tests}}}\n", file[0].file);
    }
    out
}

/// A module around modules of tests, if there are any.
fn module(name: &str, tests: &str) -> String {
    if tests.is_empty() {
        return String::new();
    }
    format!("mod {name} {{\nuse super::run;\n{tests}}}\n")
}

/// A macro that defines tests.
fn exported(name: &str, tests: &str) -> String {
    format!("#[macro_export]\n#[doc(hidden)]\nmacro_rules! {name} {{ () => {{\n{tests}}}; }}\n")
}

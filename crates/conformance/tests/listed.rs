//! Checks that every case function in the source is listed, so that each one runs.

use std::collections::BTreeSet;
use std::path::Path;

macro_rules! list {
    ($($area:ident :: $file:ident { $($case:ident,)* })*) => {
        vec![$($(concat!(stringify!($area), "/", stringify!($file), "/", stringify!($case))),*),*]
    };
}

macro_rules! list_stores {
    ($($area:ident :: $file:ident { $($case:ident $([$($need:ident),*])?
        $(lacking $lack:ident)?,)* })*) => {
        vec![$($(concat!(stringify!($area), "/", stringify!($file), "/", stringify!($case))),*),*]
    };
}

const AREAS: [&str; 15] = [
    "cells",
    "strings",
    "records",
    "runs",
    "keyed",
    "outbox",
    "stores",
    "run_stores",
    "keyed_stores",
    "transactions",
    "branches",
    "time",
    "feed",
    "limits",
    "durability",
];

fn written() -> BTreeSet<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeSet::new();
    for area in AREAS {
        for entry in std::fs::read_dir(source.join(area)).unwrap() {
            let path = entry.unwrap().path();
            let file = path.file_stem().unwrap().to_string_lossy().into_owned();
            for line in std::fs::read_to_string(&path).unwrap().lines() {
                let case = line.strip_prefix("pub fn ").and_then(|rest| rest.split_once('('));
                if let Some((case, _)) = case {
                    found.insert(format!("{area}/{file}/{case}"));
                }
            }
        }
    }
    found
}

#[test]
fn every_case_is_listed() {
    let both: Vec<&str> = mainstay_conformance::every_case!(list);
    let disk: Vec<&str> = mainstay_conformance::every_disk_case!(list);
    let records: Vec<&str> = mainstay_conformance::every_record_case!(list);
    let stores: Vec<&str> = mainstay_conformance::every_store_case!(list_stores);
    let runs: Vec<&str> = mainstay_conformance::every_run_case!(list);
    let runs_on_disk: Vec<&str> = mainstay_conformance::every_run_disk_case!(list);
    let outbox: Vec<&str> = mainstay_conformance::every_outbox_case!(list);
    let outbox_on_disk: Vec<&str> = mainstay_conformance::every_outbox_disk_case!(list);
    let all = both.into_iter().chain(disk).chain(records).chain(stores);
    let all = all.chain(runs).chain(runs_on_disk).chain(outbox).chain(outbox_on_disk);
    let run_stores: Vec<&str> = mainstay_conformance::every_run_store_case!(list_stores);
    let keyed_stores: Vec<&str> = mainstay_conformance::every_keyed_store_case!(list_stores);
    let all = all.chain(run_stores).chain(keyed_stores);
    let keyed: Vec<&str> = mainstay_conformance::every_keyed_case!(list);
    let keyed_on_disk: Vec<&str> = mainstay_conformance::every_keyed_disk_case!(list);
    let all = all.chain(keyed).chain(keyed_on_disk);
    let listed: BTreeSet<String> = all.map(str::to_owned).collect();
    assert!(listed.len() >= 150, "only {} cases", listed.len());
    assert_eq!(written(), listed);
}

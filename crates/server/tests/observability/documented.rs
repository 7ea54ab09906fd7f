//! The documentation lists exactly the metrics that the server exports.

use crate::world::World;
use mainstay_server::resp::Settings;
use std::collections::BTreeMap;

const LIST: &str = include_str!("../../../../docs/metrics.md");

#[test]
fn every_metric_is_documented_with_its_type_and_nothing_else_is() {
    let w = World::new(Settings::default());
    // A request is counted when it is answered, so the second page contains the first request.
    w.metrics();
    let page = w.metrics();
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let shown: BTreeMap<&str, &str> = types.collect();
    let rows = LIST.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let listed: BTreeMap<&str, &str> =
        rows.map(|(name, rest)| (name, rest.split(' ').next().unwrap())).collect();
    assert_eq!(listed, shown);
}

#[test]
fn every_metric_says_what_it_is_and_ends_in_its_unit() {
    let w = World::new(Settings::default());
    let page = w.metrics();
    let names: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    for name in &names {
        let help = page.lines().find_map(|line| line.strip_prefix(&format!("# HELP {name} ")));
        assert!(help.is_some_and(|help| help.len() > 10), "{name}: {help:?}");
        for wrong in ["_ms", "_us", "_kb", "_milliseconds"] {
            assert!(!name.ends_with(wrong), "{name}");
        }
    }
    assert!(names.len() > 50, "{}", names.len());
}

//! Simulated worlds: nothing goes wrong in a few of them, and the same seed gives the same one.

use mainstay_sim::world::{Digest, Plan, Script, live, run};
use std::collections::BTreeSet;
use std::process::Command;

fn digest(seed: u64) -> Digest {
    let lived = live(&Script::of(seed), false);
    assert_eq!(lived.wrong, None, "seed {seed}: {:#?}", lived.tail);
    lived.digest
}

#[test]
fn nothing_goes_wrong_in_a_few_worlds() {
    let plan = Plan { from: 1_000, seeds: 60, print: false };
    let found = run(&plan, |_| {}).unwrap_or_else(|wrong| panic!("{wrong}"));
    let tally = found.tally;
    assert_eq!(found.worlds, 60);
    assert!(tally.answered > 1_000 && tally.letters > 500, "{tally:?}");
    assert!(tally.cuts > 60 && tally.inside > 5 && tally.starting > 0, "{tally:?}");
    assert!(tally.failed_syncs > 0 && tally.full > 0 && tally.crashes > 0, "{tally:?}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let seeds = 1..=40;
    let digests: Vec<Digest> = seeds.clone().map(digest).collect();
    let again: Vec<Digest> = seeds.map(digest).collect();
    assert_eq!(digests, again);
    let different: BTreeSet<Digest> = digests.iter().copied().collect();
    assert_eq!(different.len(), digests.len(), "other seeds give other traces");
}

/// In another process hashes of maps have other keys, and memory lies elsewhere.
#[test]
fn another_process_has_the_same_trace() {
    for seed in 50..55 {
        let words = ["world", "--seeds", "1", "--from", &seed.to_string()];
        let output = Command::new(env!("CARGO_BIN_EXE_prove")).args(words).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let told = format!("trace of the last one: {}", digest(seed));
        assert!(output.status.success() && said.contains(&told), "seed {seed}, {told}:\n{said}");
    }
}

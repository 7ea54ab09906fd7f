//! Merges of runs: whatever legal histories are merged, with any strategy, no consistent run becomes
//! inconsistent.

use crate::memory;
use mainstay::{At, Code, Database, Judgement, MergeStrategy, NewEvent, RunSnapshot, reduce};
use proptest::collection::vec;
use proptest::prelude::*;

const BRANCHES: [&str; 3] = ["main", "a", "b"];
const STRATEGIES: [MergeStrategy; 3] =
    [MergeStrategy::Strict, MergeStrategy::Theirs, MergeStrategy::Ours];
const KINDS: [&str; 12] = [
    "RunApproved",
    "RunStarted",
    "RunPaused",
    "RunResumed",
    "RunCompleted",
    "RunFailed",
    "StepStarted",
    "StepCompleted",
    "StepFailed",
    "StepSkipped",
    "StepRetried",
    "Noted",
];

#[derive(Clone, Debug)]
enum Act {
    /// Appends an event if it is legal there.
    Append {
        branch: usize,
        kind: usize,
        step: u8,
        key: u8,
    },
    Merge {
        from: usize,
        into: usize,
        strategy: usize,
    },
    /// Rewinds the run to one of its events.
    Rewind {
        branch: usize,
        seq: u64,
    },
    Delete {
        branch: usize,
    },
}

fn act() -> impl Strategy<Value = Act> {
    let branch = || 0..BRANCHES.len();
    prop_oneof![
        12 => (branch(), 0..KINDS.len(), 0..2u8, 0..9u8)
            .prop_map(|(branch, kind, step, key)| Act::Append { branch, kind, step, key }),
        4 => (branch(), branch(), 0..STRATEGIES.len())
            .prop_map(|(from, into, strategy)| Act::Merge { from, into, strategy }),
        1 => (branch(), 0..5u64).prop_map(|(branch, seq)| Act::Rewind { branch, seq }),
        1 => branch().prop_map(|branch| Act::Delete { branch }),
    ]
}

/// Folds the events of a branch's run by the reducer alone. Each event must be legal.
fn folded(db: &Database, branch: &str) -> RunSnapshot {
    let mut snapshot = RunSnapshot::new("r");
    for event in db.branch(branch).unwrap().runs().fetch("r", 0, 1_000).unwrap() {
        let judgement = reduce(&mut snapshot, &event);
        assert!(!matches!(judgement, Judgement::Illegal(_)), "{branch}: {event:?} {judgement:?}");
    }
    snapshot
}

fn append(db: &Database, branch: &str, event: NewEvent) {
    let run = db.branch(branch).unwrap().runs();
    let mut after = folded(db, branch);
    let seq = after.last_event_seq + 1;
    let stored =
        event.clone().stored(seq, "e".into(), event.key().unwrap(), mainstay::Instant::of_us(1));
    if !matches!(reduce(&mut after, &stored), Judgement::Illegal(_)) {
        // A deleted run refuses the event.
        let _ = run.append(event);
    }
}

fn play(db: &Database, act: &Act) {
    match *act {
        Act::Append { branch, kind, step, key } => {
            let event = NewEvent::new("r", KINDS[kind]).with_key(&format!("{}-{key}", KINDS[kind]));
            let is_of_step = KINDS[kind].starts_with("Step");
            let event = if is_of_step { event.step(&format!("s{step}")) } else { event };
            append(db, BRANCHES[branch], event);
        }
        Act::Merge { from, into, strategy } if from != into => {
            let from = BRANCHES[from];
            let into = BRANCHES[into];
            let all = |db: &Database| db.branch(into).unwrap().runs().fetch("r", 0, 1_000).unwrap();
            let before = all(db);
            match db.merge(from, into, STRATEGIES[strategy]) {
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(
                        (error.code(), error.keys()),
                        (Code::MergeConflict, &["r".to_owned()][..])
                    );
                    assert_eq!(all(db), before);
                    assert_ne!(
                        STRATEGIES[strategy],
                        MergeStrategy::Ours,
                        "it leaves what does not fit"
                    );
                }
            }
        }
        Act::Rewind { branch, seq } if branch > 0 => {
            let _ = db.branch(BRANCHES[branch]).unwrap().runs().rewind("r", seq);
        }
        Act::Delete { branch } => {
            db.branch(BRANCHES[branch]).unwrap().runs().delete("r").unwrap();
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_merge_makes_a_run_inconsistent(
        before in vec(act(), 0..12),
        after in vec(act(), 1..40),
    ) {
        let (db, _) = memory();
        let is_common = |act: &&Act| matches!(act, Act::Append { branch: 0, .. });
        before.iter().filter(is_common).for_each(|act| play(&db, act));
        for branch in ["a", "b"] {
            db.fork(branch, "main", At::Latest).unwrap();
        }
        let mut deleted = [false; BRANCHES.len()];
        for act in &after {
            play(&db, act);
            for (branch, was_deleted) in BRANCHES.iter().zip(&mut deleted) {
                let info = db.branch(branch).unwrap().runs().get("r").unwrap();
                prop_assert!(!info.as_ref().is_some_and(|info| info.inconsistent), "{} {:?}", branch, act);
                folded(&db, branch);
                prop_assert!(!(*was_deleted && info.is_some()), "{} is back on {}", "r", branch);
                if let Act::Delete { branch: of } = act && BRANCHES[*of] == *branch {
                    *was_deleted = db.branch(branch).unwrap().runs().append(
                        NewEvent::new("r", "Noted").with_key("late")).is_err();
                }
            }
        }
    }
}

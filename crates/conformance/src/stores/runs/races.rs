//! Races between concurrent callers. Each case names the bug that it detects.

use super::{TestRuns, event, keyed};
use mainstay_model::{Code, Value};
use std::collections::BTreeSet;

const ROUNDS: usize = 10;

/// Detects a key lookup and an append that are not atomic: there would be two events.
pub fn one_event_of_a_key(s: &TestRuns<'_>) {
    for round in 0..ROUNDS {
        let run = format!("r{round}");
        let answers = s.together(|n| s.append(keyed(&run, "k", &n.to_string())));
        assert_eq!(answers.iter().filter(|answer| answer.persisted).count(), 1, "{answers:?}");
        let seqs: BTreeSet<u64> = answers.iter().map(|answer| answer.run_seq).collect();
        let winner = answers.iter().position(|answer| answer.persisted).unwrap();
        assert_eq!(seqs.len(), 1, "{answers:?}");
        assert_eq!(s.only(&run).event_data, Value::from(winner.to_string()));
    }
}

/// Detects sequence numbers that two events share, and events that are lost.
pub fn sequences_are_not_shared(s: &TestRuns<'_>) {
    const EACH: usize = 20;
    let seqs = s.together(|n| -> Vec<u64> {
        (0..EACH).map(|i| s.append(keyed("r", &format!("{n}.{i}"), "")).run_seq).collect()
    });
    for own in &seqs {
        assert!(own.is_sorted_by(|one, next| one < next), "{own:?}");
    }
    let told: BTreeSet<u64> = seqs.iter().flatten().copied().collect();
    let stored: Vec<u64> = s.events("r").iter().map(|event| event.run_seq).collect();
    assert_eq!(told.len(), seqs.len() * EACH);
    assert_eq!(stored, told.into_iter().collect::<Vec<_>>());
}

/// Detects a sequence check and an append that are not atomic.
/// Requires: ExpectedSeq.
pub fn one_expecting_wins(s: &TestRuns<'_>) {
    let mut last = 0;
    for round in 0..ROUNDS {
        let answers = s.together(|n| {
            let event = keyed("r", &format!("{round}.{n}"), "");
            s.wait(s.append_expecting(event, last))
        });
        let won: Vec<u64> = answers.iter().flatten().map(|answer| answer.run_seq).collect();
        assert_eq!(won.len(), 1, "{answers:?}");
        let lost = answers.iter().filter_map(|answer| answer.as_ref().err());
        assert!(lost.into_iter().all(|error| error.code() == Code::SequenceMoved));
        last = won[0];
    }
    assert_eq!(s.events("r").len(), ROUNDS);
}

/// Detects an existence check and a bootstrap that are not atomic.
/// Requires: Bootstrap.
pub fn one_bootstrap_wins(s: &TestRuns<'_>) {
    for round in 0..ROUNDS {
        let run = format!("r{round}");
        let answers = s.together(|n| {
            let first = event(&run, "RunStarted").data(&n.to_string());
            s.wait(s.bootstrap(&run, Value::Null, vec![first])).is_ok()
        });
        assert_eq!(answers.iter().filter(|won| **won).count(), 1, "{answers:?}");
        s.only(&run);
    }
}

/// Detects two deletions of the same run that both succeed.
/// Requires: Deletion.
pub fn one_deletion_wins(s: &TestRuns<'_>) {
    for round in 0..ROUNDS {
        let run = format!("r{round}");
        s.append(event(&run, "RunStarted"));
        let won = s.together(|_| s.ok(s.delete_run(&run)));
        assert_eq!(won.iter().filter(|won| **won).count(), 1, "{won:?}");
    }
}

//! Random runs: always at most once; exactly once, if answered; not at all, if reported as not executed.

use super::script::Script;
use mainstay_sessions::Faults;
use proptest::prelude::*;

fn faults() -> impl Strategy<Value = Faults> {
    let often = || prop_oneof![Just(0.0), 0.0..0.4];
    let seldom = || prop_oneof![Just(0.0), 0.0..0.2];
    (
        any::<u64>(),
        (often(), often(), seldom()),
        (seldom(), seldom(), often(), often()),
        (often(), often()),
    )
        .prop_map(
            |(
                seed,
                (lose_request, lose_answer, silence),
                (refuse, repeat, repeat_late, hold),
                waker_faults,
            )| {
                Faults {
                    seed,
                    lose_request,
                    lose_answer,
                    silence,
                    refuse,
                    repeat,
                    repeat_late,
                    hold,
                    delay: 0.2,
                    break_waker: waker_faults.0,
                    wake_twice: waker_faults.1,
                }
            },
        )
}

prop_compose! {
    fn script(silent: bool)(
        faults in faults(),
        clients in 1..4_usize,
        tasks in 1..5_usize,
        requests in 1..12_usize,
        window in 1..6_usize,
        deadline_ms in prop_oneof![20..200_u64, Just(1_000_000)],
        lease_ms in prop_oneof![20..300_u64, Just(60_000)],
        silences in 3..10_u64,
        failures in prop_oneof![Just(0), 2..6_u64],
    ) -> Script {
        let (silences, lease_ms) = if silent { (silences, lease_ms) } else { (0, 60_000) };
        Script { faults, clients, tasks, requests, window, deadline_ms, lease_ms, silences, failures, injected_fault: None }
    }
}

/// Enough to detect regressions; `PROPTEST_CASES` raises it.
fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    ProptestConfig { cases: cases.unwrap_or(150), ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn everything_is_executed_at_most_once_and_told_truly(script in script(false)) {
        let outcome = script.run();
        prop_assert!(outcome.wrong.is_empty(), "{:#?}", outcome.wrong);
    }

    #[test]
    fn sessions_that_expire_tell_what_they_know(script in script(true)) {
        let outcome = script.run();
        prop_assert!(outcome.wrong.is_empty(), "{:#?}", outcome.wrong);
    }
}

#[test]
fn the_same_script_gives_the_same_run() {
    let script = Script {
        faults: Faults { silence: 0.1, ..Faults::many(11) },
        clients: 3,
        tasks: 3,
        requests: 10,
        window: 2,
        deadline_ms: 100,
        lease_ms: 100,
        silences: 7,
        failures: 3,
        injected_fault: None,
    };
    let one = script.run();
    let other = script.run();
    let replies = |outcome: &super::script::Outcome| format!("{:?}", outcome.replies);
    assert_eq!(replies(&one), replies(&other));
    assert_eq!((one.messages, one.retries), (other.messages, other.retries));
    assert!(one.retries > 0);
}

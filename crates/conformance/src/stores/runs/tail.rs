//! `wait_for`: waits until a run has an event after a sequence number.
//!
//! Requires: TailWakes.

use super::{TestRuns, event, keyed};
use crate::assertions::PATIENCE;

fn patience_ms() -> u64 {
    u64::try_from(PATIENCE.as_millis()).unwrap()
}

/// If the event exists already, `wait_for` returns at once.
pub fn what_is_there_is_not_waited_for(s: &TestRuns<'_>) {
    let seq = s.append(event("r", "RunStarted")).run_seq;
    s.settle();
    assert!(s.ok(s.wait_for("r", 0, patience_ms())));
    assert!(s.ok(s.wait_for("r", seq - 1, patience_ms())));
}

/// With a timeout of zero, `wait_for` returns false if the event does not exist or the run is missing.
pub fn nothing_is_told_in_time(s: &TestRuns<'_>) {
    let seq = s.append(event("r", "RunStarted")).run_seq;
    s.settle();
    assert!(!s.ok(s.wait_for("r", seq, 0)));
    assert!(!s.ok(s.wait_for("unknown", 0, 0)));
}

/// An append wakes the waiter, even if it creates the run.
pub fn append_wakes(s: &TestRuns<'_>) {
    for n in 0..20 {
        std::thread::scope(|scope| {
            let run = format!("r{}", n % 5);
            let last = s.events(&run).last().map_or(0, |event| event.run_seq);
            let waiting = {
                let run = run.clone();
                scope.spawn(move || s.ok(s.wait_for(&run, last, patience_ms())))
            };
            s.append(keyed(&run, &n.to_string(), ""));
            s.settle();
            assert!(waiting.join().expect("it waits"), "{n}");
        });
    }
}

/// A waiter that is woken by another run continues to wait.
pub fn other_runs_do_not_count(s: &TestRuns<'_>) {
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let came = s.ok(s.wait_for("r", 0, patience_ms()));
            (came, s.events("r").len())
        });
        for n in 0..20 {
            s.append(keyed("other", &n.to_string(), ""));
        }
        s.append(event("r", "RunStarted"));
        s.settle();
        assert_eq!(waiting.join().expect("it waits"), (true, 1));
    });
}

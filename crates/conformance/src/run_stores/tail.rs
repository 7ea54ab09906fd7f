//! `wait_for`: whoever waits for an event is woken by it.

use crate::check::PATIENCE;
use crate::run_stand::{RunStand, event, keyed};

fn patience_ms() -> u64 {
    u64::try_from(PATIENCE.as_millis()).unwrap()
}

/// What is there is told at once.
pub fn what_is_there_is_not_waited_for(s: &RunStand<'_>) {
    let seq = s.append(event("r", "RunStarted")).run_seq;
    s.settle();
    assert!(s.ok(s.wait_for("r", 0, patience_ms())));
    assert!(s.ok(s.wait_for("r", seq - 1, patience_ms())));
}

/// Who does not wait is told that there is nothing: behind the last one, and of a run that there is not.
pub fn nothing_is_told_in_time(s: &RunStand<'_>) {
    let seq = s.append(event("r", "RunStarted")).run_seq;
    s.settle();
    assert!(!s.ok(s.wait_for("r", seq, 0)));
    assert!(!s.ok(s.wait_for("unknown", 0, 0)));
}

/// An append wakes, also where there was no run before.
pub fn append_wakes(s: &RunStand<'_>) {
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

/// Who is woken for another run goes on waiting.
pub fn other_runs_do_not_count(s: &RunStand<'_>) {
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

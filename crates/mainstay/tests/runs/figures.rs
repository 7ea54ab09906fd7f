//! Statistics of runs and outboxes.

use crate::{event, memory, note};
use mainstay::{NewEvent, RunFigures, Transaction};
use std::time::Duration;

#[test]
fn what_failed_is_not_counted_and_what_was_there_already_is() {
    let (db, _) = memory();
    let runs = db.runs();
    runs.append(note("r", 1)).unwrap();
    runs.append(note("r", 1)).unwrap();
    runs.append(note("r", 1).value("another")).unwrap();
    assert!(runs.append_expecting(note("r", 2), 7).is_err());
    let step = |event: NewEvent, expected| mainstay::RunCommand::Append {
        event: Box::new(event),
        expected,
    };
    let half = Transaction::new().step(step(note("r", 2), None)).step(step(note("r", 3), Some(9)));
    assert!(db.execute(half).is_err());
    let RunFigures { appended, repeated, conflicts, .. } = db.stats().runs;
    assert_eq!((appended, repeated, conflicts), (1, 2, 1));
    runs.bootstrap("s", 1, vec![note("s", 1), note("s", 2)]).unwrap();
    assert_eq!(db.stats().runs.appended, 3, "what a run is made with is no event");
}

#[test]
fn snapshots_folds_and_alerts_are_counted() {
    let (db, _) = memory();
    for number in 0..600 {
        db.runs().append(note("r", number)).unwrap();
    }
    let figures = db.stats().runs;
    assert_eq!((figures.kept, figures.folds_remembered, figures.folds_anew), (2, 599, 1));
    db.runs().append(event("r", "RunCompleted", None)).unwrap();
    assert_eq!(db.stats().runs.alerts, 1);
}

#[test]
fn deleted_runs_are_counted_and_so_is_what_is_left_of_none() {
    let (db, _) = memory();
    db.runs().append(note("r", 1)).unwrap();
    assert!(db.runs().delete("r").unwrap());
    assert!(!db.runs().delete("r").unwrap());
    assert_eq!(db.stats().runs.deleted, 1);
    db.reap().unwrap();
    let figures = db.stats().runs;
    assert_eq!((figures.deleted, figures.reaped, figures.appended), (1, 1, 1));
}

#[test]
fn those_who_wait_for_an_event_are_counted_while_they_do() {
    let (db, _) = memory();
    let mut tail = db.runs().tail("r", 0).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| tail.next(1, Duration::from_secs(60)).unwrap());
        while db.stats().runs.tails == 0 {
            std::thread::yield_now();
        }
        db.runs().append(note("r", 1)).unwrap();
        // Unsynced events are delivered after the sync.
        db.sync().unwrap();
        assert_eq!(waiting.join().unwrap().len(), 1);
    });
    assert_eq!(db.stats().runs.tails, 0);
}

#[test]
fn the_outbox_says_how_long_its_first_message_has_waited() {
    let (db, clock) = memory();
    assert_eq!(db.stats().outbox.main.oldest_due, None);
    db.outbox().put("s", "p", None).unwrap();
    clock.advance(Duration::from_secs(5));
    let figures = db.stats().outbox;
    assert_eq!((figures.put, figures.main.pending), (1, 1));
    assert!((4_999_000..=5_000_000).contains(&figures.overdue_us), "{}", figures.overdue_us);
    db.outbox().claim(1, Duration::from_secs(60)).unwrap();
    assert_eq!(db.stats().outbox.overdue_us, 0, "whoever has it has time");
}

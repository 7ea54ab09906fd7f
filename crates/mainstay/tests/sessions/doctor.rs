//! Doctor checks of a database with random session operations, after a crash.

use super::machine::{make_sizes, sized};
use super::random::Random;
use super::*;
use mainstay::{Guard, SessionCommand, SessionRequest};

const NAMES: [&str; 5] = ["a", "ab", "b", "é", "a/b"];
const SIZES: [usize; 4] = [10, 240, 300, 1_100];

/// Runs a random operation on a session, which may not exist.
fn act(db: &Database, clock: &ManualClock, random: &mut Random, ids: &mut u64) {
    let session = name(NAMES[random.below(5) as usize]);
    let command = match random.below(100) {
        0..50 => return request(db, session, random, ids),
        50..58 => {
            SessionCommand::Open { session, lease_ms: None, capabilities: vec![], hold: None }
        }
        58..78 => {
            let payload = vec![0; random.below(400) as usize];
            SessionCommand::Send { session, payload }
        }
        78..86 => SessionCommand::Acknowledge { session, upto: random.below(40), epoch: 0 },
        86..92 => SessionCommand::KeepAlive {
            session,
            lowest_pending: ids.saturating_sub(random.below(60)),
            epoch: 0,
        },
        92..94 => SessionCommand::Close { session, epoch: 0 },
        94..97 => return clock.advance(secs(random.below(40))),
        97..98 => return assert!(db.sweep().is_ok()),
        _ => return db.trim().unwrap(),
    };
    drop(db.execute(Transaction::new().step(command)));
}

fn request(db: &Database, session: Name, random: &mut Random, ids: &mut u64) {
    *ids += 1;
    // A reopened name continues after the numbers that its earlier client may have used.
    let ahead = 1_000 * random.below(5);
    let id = (*ids + ahead).saturating_sub(random.below(5)).max(1);
    let transaction = match random.below(5) {
        0 => add("n").guard(Guard::Counter { name: name("never"), is: Some(1) }),
        1..3 => add("n"),
        _ => sized(SIZES[random.below(4) as usize]),
    };
    let request = SessionRequest::new(session, id, id.saturating_sub(random.below(90)));
    drop(db.execute(transaction.in_session(request)));
}

#[test]
fn the_doctor_counts_what_the_database_counted() {
    let mut all = [0; 3];
    for seed in 1..=6 {
        let path = tempfile::tempdir().unwrap();
        let clock = ManualClock::new(START_US);
        let mut random = Random(seed);
        let mut ids = 0;
        for round in 0..4 {
            let options = options(&clock).durability(Durability::Memory).segment_bytes(64 << 10);
            let db = options.open(path.path()).unwrap();
            make_sizes(&db, &SIZES);
            NAMES.iter().for_each(|name| drop(open(&db, name)));
            (0..250).for_each(|_| act(&db, &clock, &mut random, &mut ids));
            let figures = db.stats().sessions;
            let counted = (figures.live, figures.kept, figures.pending);
            drop(db);
            let report = mainstay::doctor::inspect(path.path()).unwrap();
            assert!(report.is_healthy(), "seed {seed}, round {round}: {report}");
            let runs = &report.runs;
            let found = (runs.sessions, runs.responses, runs.letters);
            assert_eq!(found, counted, "seed {seed}, round {round}: {report}");
            all = [all[0] + found.0, all[1] + found.1, all[2] + found.2];
        }
    }
    assert!(all.iter().all(|found| *found > 20), "there was something to be found: {all:?}");
}

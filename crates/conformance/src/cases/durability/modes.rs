//! Durability modes `sync`, `interval` and `memory`: they change when a write is durable, not its result.

use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, Durability, Transaction, Ttl};
use std::time::Duration;

const MODES: [Durability; 3] = [Durability::Memory, Durability::Interval, Durability::Sync];

/// A write is visible as soon as it is acknowledged, in every mode.
pub fn answered_is_visible(w: &mut TestDb) {
    for mode in MODES {
        w.configure(move |options| options.durability(mode));
        for n in 0..20 {
            w.cells().set("k", n).unwrap();
            assert_eq!(w.cells().get("k").unwrap(), int(n), "{mode:?}");
        }
    }
}

/// The same script gives the same results in all three modes.
pub fn same_script_same_results(w: &mut TestDb) {
    let results = MODES.map(|mode| {
        w.configure(move |options| options.durability(mode));
        w.clock().set_wall(crate::test_db::START_US);
        script(w)
    });
    assert_eq!(results[0], results[1]);
    assert_eq!(results[1], results[2]);
}

fn script(w: &TestDb) -> (Vec<String>, Vec<Option<u64>>, u64) {
    for n in 0..10 {
        w.cells().set(&format!("k{}", n % 3), n).unwrap();
        w.cells().incr("n", n).unwrap();
    }
    w.db().fork("dev", "main", At::Latest).unwrap();
    w.on("dev").delete("k0").unwrap();
    w.cells().set_with("t", 1, Ttl::Millis(5)).unwrap();
    w.db().merge("dev", "main", Default::default()).unwrap();
    let counters = ["k0", "k1", "k2", "n"].map(|cell| counter(&w.cells(), cell)).to_vec();
    (names(&w.cells(), ""), counters, w.db().revision())
}

/// The mode can be chosen per transaction.
pub fn chosen_per_transaction(w: &mut TestDb) {
    for (n, mode) in MODES.into_iter().enumerate() {
        let transaction = Transaction::new().step(set("k", n as i64)).durability(mode);
        w.db().execute(transaction).unwrap();
        assert_eq!(w.cells().get("k").unwrap(), int(n as i64));
    }
}

/// The mode can be chosen for an interactive transaction.
pub fn chosen_for_an_interactive_transaction(w: &mut TestDb) {
    for mode in MODES {
        let mut t = w.db().begin().unwrap();
        t.durability(mode);
        t.incr("k", 1).unwrap();
        t.commit().unwrap();
    }
    assert_eq!(w.cells().get("k").unwrap(), int(3));
}

/// `sync` makes all earlier writes durable and returns the durable revision.
pub fn sync_says_up_to_where(w: &mut TestDb) {
    w.configure(|options| options.durability(Durability::Memory));
    for n in 0..10 {
        w.cells().set("k", n).unwrap();
    }
    assert_eq!(w.db().sync().unwrap(), w.db().revision());
}

/// In `interval` mode a background sync makes a write durable.
pub fn interval_syncs_by_itself(w: &mut TestDb) {
    let often = Duration::from_millis(5);
    w.configure(move |o| o.durability(Durability::Interval).sync_interval(often));
    let mut feed = w.db().watch(mainstay::Filter::default(), w.db().revision()).unwrap();
    w.cells().set("k", 1).unwrap();
    assert_eq!(keys(&mut feed, 1), ["k"], "the feed shows only what is synced");
}

/// Operations on a closed database fail with `Closed`.
pub fn closed_refuses(w: &mut TestDb) {
    w.cells().set("k", 1).unwrap();
    let cells = w.cells();
    w.db().close().unwrap();
    refused(cells.set("k", 2), Code::Closed);
    refused(w.db().begin().map(drop), Code::Closed);
}

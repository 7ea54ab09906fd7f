//! Recovery of the outbox after a reopen (disk only).
//!
//! Requires: Disk.

use super::{BACK_OFF, LEASE, claim, claimed, outlast, send};
use crate::TestDb;

/// Leases, tries, order, dead messages and IDs are unchanged after a reopen.
pub fn everything_is_there(w: &mut TestDb) {
    let dead = send(w, "dead", None);
    claim(w);
    w.db().outbox().fail(dead, "no", BACK_OFF, 1).unwrap();
    send(w, "r1", Some("r"));
    let last = send(w, "r2", Some("r"));
    claim(w);
    let state = w.db().outbox().state().unwrap();
    w.reopen();
    assert_eq!(w.db().outbox().state().unwrap(), state);
    assert!(claimed(w).is_empty(), "the lease goes on");
    outlast(w);
    let again = w.db().outbox().claim(9, LEASE).unwrap();
    assert_eq!((again.len(), again[0].subject.as_str(), again[0].tries), (1, "r1", 2));
    w.db().outbox().ack(&[again[0].id]).unwrap();
    assert_eq!(claimed(w), ["r2"]);
    assert_eq!(w.db().outbox().dead(0, 9).unwrap()[0].id, dead);
    assert!(send(w, "new", None) > last);
}

/// Replaying the log alone rebuilds the outbox.
pub fn the_log_alone_gives_them(w: &mut TestDb) {
    let ids: Vec<u64> = ["a", "b", "c"].iter().map(|subject| send(w, subject, None)).collect();
    w.db().outbox().claim(1, LEASE).unwrap();
    w.db().outbox().ack(&ids[..1]).unwrap();
    w.reopen_after(|directory| std::fs::remove_dir_all(directory.join("index")).unwrap());
    assert_eq!(claimed(w), ["b", "c"]);
}

//! The outbox on branches: a fork inherits nothing that is pending.

use super::{BACK_OFF, LEASE, claim, claimed, send, subjects};
use crate::World;
use mainstay::At;

/// Neither pending nor dead ones are inherited; a fork has its own.
pub fn a_fork_inherits_nothing(w: &mut World) {
    let dead = send(w, "dead", None);
    claim(w);
    w.db().outbox().fail(dead, "no", BACK_OFF, 1).unwrap();
    send(w, "of main", Some("r"));
    w.db().fork("dev", "main", At::Latest).unwrap();
    let dev = w.db().branch("dev").unwrap().outbox();
    assert!(dev.claim(9, LEASE).unwrap().is_empty() && dev.dead(0, 9).unwrap().is_empty());
    assert_eq!((dev.state().unwrap().pending, dev.state().unwrap().dead), (0, 0));
    assert!(!dev.replay(dead).unwrap());
    assert_eq!(dev.ack(&[dead]).unwrap(), 0);
    dev.put("of dev", "", Some("r")).unwrap();
    assert_eq!(subjects(&dev.claim(9, LEASE).unwrap()), ["of dev"]);
    assert_eq!(claimed(w), ["of main"]);
}

/// A merge brings no messages: what was put on a branch is delivered there or not at all.
pub fn a_merge_brings_no_messages(w: &mut World) {
    w.db().fork("dev", "main", At::Latest).unwrap();
    let dev = w.db().branch("dev").unwrap();
    dev.outbox().put("of dev", "", None).unwrap();
    dev.cells().set("c", 1).unwrap();
    assert!(w.db().diff("dev", "main").unwrap().iter().all(|one| one.key == "c"));
    w.db().merge("dev", "main", mainstay::MergeStrategy::Strict).unwrap();
    assert!(claimed(w).is_empty());
    assert_eq!(dev.outbox().state().unwrap().pending, 1);
}

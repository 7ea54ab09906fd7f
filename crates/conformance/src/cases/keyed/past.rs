//! Time travel in keyed state: every retained revision shows its state; a trimmed one is an error.

use super::{all, held, ordered, snapshot_of, space};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{At, Code, KeyedState, StateWrite};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn at(w: &TestDb, revision: u64, key: &str) -> Option<String> {
    let state = space(w).at(At::Revision(revision)).unwrap().get(key).unwrap()?;
    Some(format!("{}@{}", String::from_utf8_lossy(&state.value), state.version))
}

/// After puts, deletes, seals, restores and drops, each revision shows its own state.
pub fn every_revision_shows_its_state(w: &mut TestDb) {
    let start = w.db().revision();
    let put = |value: &str, version| {
        space(w).put("a", value, version).unwrap();
        w.db().revision()
    };
    let one = put("1", 1);
    let two = put("2", 2);
    space(w).delete("a", 3).unwrap();
    let deleted = w.db().revision();
    space(w).seal(9).unwrap();
    let three = put("3", 10);
    space(w).restore(&snapshot_of(&[("a", "restored", 1)])).unwrap();
    let restored = w.db().revision();
    space(w).clear().unwrap();
    let gone = w.db().revision();
    w.beside().reap().unwrap();
    let four = put("4", 1);
    let text = |text: &str| Some(text.to_owned());
    let expected = [
        (start, None),
        (one, text("1@1")),
        (two, text("2@2")),
        (deleted, None),
        (three, text("3@10")),
        (restored, text("restored@1")),
        (gone, None),
        (four, text("4@1")),
    ];
    for (revision, held) in expected {
        assert_eq!(at(w, revision, "a"), held, "{revision}");
    }
    assert!(space(w).at(At::Revision(start)).unwrap().info().unwrap().is_none());
    assert_eq!(
        space(w).at(At::Revision(three)).unwrap().info().unwrap().unwrap().frontier,
        Some(9.into())
    );
}

/// A view can be opened by timestamp and keeps its revision. A future revision is refused.
pub fn views_stay_where_they_are(w: &mut TestDb) {
    space(w).write(vec![StateWrite::put("a", "1", 1), StateWrite::advance("in", 1)]).unwrap();
    let stamp = w.wall_us();
    let view = space(w).at(At::Latest).unwrap();
    w.pass_ms(5);
    space(w).write(vec![StateWrite::put("a", "2", 2), StateWrite::advance("in", 2)]).unwrap();
    space(w).append_unique("a", "i", "x").unwrap();
    assert_eq!(view.get("a").unwrap().unwrap().version, 1.into());
    assert_eq!(view.positions().unwrap(), [("in".to_owned(), 1)]);
    assert!(view.items(b"a", None, 9).unwrap().is_empty());
    assert_eq!(space(w).at(At::Stamp(stamp)).unwrap().scan(b"", None, 9).unwrap().states.len(), 1);
    refused(space(w).at(At::Revision(w.db().revision() + 1)), Code::FutureRevision);
}

/// Reading below the retention horizon fails with `HistoryTrimmed`, and the present is unaffected.
pub fn trimmed_says_so(w: &mut TestDb) {
    space(w).put("a", "1", 1).unwrap();
    let then = w.db().revision();
    w.pass_ms(1_000);
    space(w).put("a", "2", 2).unwrap();
    for number in 0..3 {
        w.pass(DAY * 10);
        w.cells().set("later", number).unwrap();
        w.db().trim().unwrap();
    }
    let view = space(w).at(At::Revision(then));
    refused(view.and_then(|view| view.get("a")), Code::HistoryTrimmed);
    let view = space(w).at(At::Revision(then));
    refused(view.and_then(|view| view.snapshot_to(&mut Vec::new())), Code::HistoryTrimmed);
    assert_eq!(all(&space(w)), ["a=2@2"]);
}

/// A tag keeps its revision readable, even if the space was replaced and reaped since.
pub fn tag_keeps_what_it_names(w: &mut TestDb) {
    space(w).put("a", "1", 1).unwrap();
    let then = w.db().revision();
    w.db().tag("v", "main", At::Latest).unwrap();
    space(w).restore(&snapshot_of(&[("b", "2", 2)])).unwrap();
    for number in 0..3 {
        w.pass(DAY * 10);
        w.beside().reap().unwrap();
        w.cells().set("later", number).unwrap();
        w.db().trim().unwrap();
    }
    assert_eq!(at(w, then, "a").unwrap(), "1@1");
    assert_eq!(all(&space(w)), ["b=2@2"]);
}

/// A view shows the writes that waited at its revision.
pub fn waiting_of_then(w: &mut TestDb) {
    ordered(w);
    space(w).put("a", "1", 5).unwrap();
    let view = space(w).at(At::Latest).unwrap();
    space(w).seal(9).unwrap();
    assert_eq!(held(&space(w), "a").unwrap(), "1@5");
    assert_eq!(view.get("a").unwrap(), None);
    let mut then = Vec::new();
    view.snapshot_to(&mut then).unwrap();
    let other = TestDb::memory();
    space(&other).restore(&then).unwrap();
    assert_eq!(space(&other).waiting(None, 9).unwrap().len(), 1);
    assert_eq!(space(&other).seal(9).unwrap(), 1);
    assert_eq!(super::whole(&space(&other)), super::whole(&space(w)));
}

//! `get`: the info of a run.

use super::TestRuns;
use mainstay_model::RunStatus;

/// The info contains the status, the last event, the mark of inconsistency and the times.
pub fn tells_where_a_run_stands(s: &TestRuns<'_>) {
    let told = s.tell("r", &[("RunStarted", None), ("RunPaused", None), ("RunStarted", None)]);
    s.settle();
    let info = s.ok(s.get("r")).unwrap();
    assert_eq!((info.run_id.as_str(), info.status), ("r", RunStatus::Paused));
    assert_eq!((info.last_event_seq, info.inconsistent), (told[2].run_seq, true));
    assert!(info.created > 0 && info.updated >= info.created, "{info:?}");
    assert!(info.metadata.is_none_or(|it| it.is_null()));
}

/// The info of a missing run is `None`.
pub fn unknown_is_nothing(s: &TestRuns<'_>) {
    assert_eq!(s.ok(s.get("r")), None);
}

/// The info agrees with the snapshot after every event.
pub fn follows_every_event(s: &TestRuns<'_>) {
    let types = ["RunApproved", "RunStarted", "Tick", "RunPaused", "RunFailed", "RunStarted"];
    for (n, event_type) in types.iter().enumerate() {
        let event = mainstay_model::NewEvent::new("r", event_type).with_key(&n.to_string());
        s.append(event);
        s.settle();
        let info = s.ok(s.get("r")).unwrap();
        let snapshot = s.ok(s.get_snapshot("r")).unwrap();
        assert_eq!(info.status, snapshot.status);
        assert_eq!(info.last_event_seq, snapshot.last_event_seq);
        assert_eq!(info.inconsistent, snapshot.is_inconsistent());
    }
}

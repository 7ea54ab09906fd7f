//! Numbers that a double cannot represent: event data keeps their text, everything else refuses them.

use super::{all, is_whole};
use crate::TestDb;
use crate::assertions::*;
use mainstay::{Code, NewEvent, Value};

const BEYOND: [&str; 5] = [
    "9223372036854775808",
    "18446744073709551616",
    "1e400",
    "-1E-400",
    "0.1000000000000000055511151231257827",
];

fn event(key: usize, data: &str) -> NewEvent {
    NewEvent::new("r", "Noted").with_key(&format!("{key}")).data(data)
}

/// A fetch returns every number of the data with exactly the appended digits.
pub fn events_keep_their_text(w: &mut TestDb) {
    let texts: Vec<String> =
        BEYOND.iter().map(|n| format!(r#"{{"a":[{n},1.5,"1e400"]}}"#)).collect();
    let all_texts = BEYOND.iter().map(|n| (*n).to_owned()).chain(texts);
    let texts: Vec<String> = all_texts.collect();
    for (key, text) in texts.iter().enumerate() {
        assert!(w.runs().append(event(key, text)).unwrap().persisted);
    }
    let kept = all(&w.runs(), "r").into_iter().map(|event| event.event_data.to_json());
    assert_eq!(kept.collect::<Vec<_>>(), texts);
    let written = "[1.50,1E2,1e23,-0]";
    w.runs().append(event(100, written)).unwrap();
    assert_eq!(all(&w.runs(), "r").pop().unwrap().event_data.to_json(), written);
    let shown = all(&w.runs(), "r").remove(1).to_json();
    assert!(shown.contains(r#""eventData":18446744073709551616,"#), "{shown}");
    is_whole(&w.runs(), "r");
}

/// Numbers that differ beyond the precision of a double are different values.
pub fn other_numbers_are_other_events(w: &mut TestDb) {
    for (key, first, again, conflict) in [
        (1, "18446744073709551616", "18446744073709551617", true),
        (2, "[1e400]", "[1e401]", true),
        (3, "0.1", BEYOND[4], true),
        (4, BEYOND[4], BEYOND[4], false),
        (5, r#"{"n": 1}"#, r#"{"n": 1.0}"#, false),
        (6, "1.50", "15e-1", false),
        (7, "9007199254740993", "9007199254740992", true),
    ] {
        w.runs().append(event(key, first)).unwrap();
        let told = writes_nothing(w.db(), || w.runs().append(event(key, again)).unwrap());
        assert_eq!((told.idempotent, told.conflict), (true, conflict), "{first}, {again}");
    }
}

/// Cells, run metadata and reducer states refuse such numbers.
pub fn others_refuse_them(w: &mut TestDb) {
    w.runs().append(event(1, "1")).unwrap();
    for number in BEYOND {
        let value = || Value::from_json_exact(&format!("[{number}]")).unwrap();
        refused(writes_nothing(w.db(), || w.cells().set("c", value())), Code::InvalidValue);
        refused(
            writes_nothing(w.db(), || w.runs().bootstrap("s", value(), vec![])),
            Code::InvalidValue,
        );
    }
    assert!(w.cells().get("c").unwrap().is_none() && w.runs().get("s").unwrap().is_none());
    for integer in &BEYOND[..2] {
        let error = Value::from_json(integer).unwrap_err();
        assert!(error.to_string().contains(integer), "{error}");
    }
}

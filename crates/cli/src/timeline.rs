//! The timeline of a run, for a terminal.
//!
//! ```text
//!   events, alerts, the snapshot --> rows: seq, since the start, event, step, attempt, data, what was illegal
//!                                    then one row per step with its attempts
//! ```

use super::field::{Field, Row, escape_control};
use mainstay::{Instant, Value};

/// The number of characters of an event's data that are shown.
const DATA_LETTERS: usize = 60;

/// The parts of an event that a timeline shows.
#[derive(Debug, PartialEq)]
pub struct TimelineEvent {
    /// The event's sequence number in the run.
    pub seq: u64,
    /// The time at which it was stored, in microseconds.
    pub stored_us: u64,
    event_type: String,
    step: Option<String>,
    attempt: Option<String>,
    data: String,
}

impl TimelineEvent {
    /// Extracts the parts from an event as JSON.
    pub fn of(seq: u64, event: &Value) -> TimelineEvent {
        let Value::Object(fields) = event else { return TimelineEvent::placeholder(seq, event) };
        let text = |name: &str| match fields.get(name) {
            Some(Value::Null) | None => None,
            Some(value) => {
                Some(escape_control(&String::from_utf8_lossy(&value.as_text())).replace('\n', " "))
            }
        };
        let stored = text("persistedAt").or_else(|| text("emittedAt"));
        let stored = stored.and_then(|at| Instant::parse(&at).ok()).map_or(0, |at| at.stamp_us());
        TimelineEvent {
            seq,
            stored_us: stored,
            event_type: text("eventType").unwrap_or_default(),
            step: text("stepId"),
            attempt: text("logicalAttemptId"),
            data: text("eventData").map_or_else(String::new, |data| truncate(&data)),
        }
    }

    /// A placeholder for a value that is not an event.
    fn placeholder(seq: u64, event: &Value) -> TimelineEvent {
        let data = truncate(&escape_control(&event.to_json()));
        TimelineEvent { seq, stored_us: 0, event_type: "?".into(), step: None, attempt: None, data }
    }

    /// A row of the table. `wrong` is the alert of an event that could not follow those before it.
    pub fn row(&self, start_us: u64, wrong: Option<&str>) -> Row {
        let maybe =
            |part: &Option<String>| part.as_ref().map_or(Value::Null, |part| part.as_str().into());
        let mark = wrong.map_or_else(String::new, |why| format!("! {}", escape_control(why)));
        vec![
            ("seq".into(), Field::number(self.seq)),
            ("since".into(), Field::text(since(start_us, self.stored_us))),
            ("event".into(), Field::text(&self.event_type)),
            ("step".into(), Field::Plain(maybe(&self.step))),
            ("attempt".into(), Field::Plain(maybe(&self.attempt))),
            ("data".into(), Field::text(&self.data)),
            ("illegal".into(), Field::text(mark)),
        ]
    }

    /// A single line, for events that are shown as they arrive.
    pub fn line(&self, start_us: u64) -> String {
        let step = self.step.as_deref().unwrap_or("-");
        let attempt = self.attempt.as_ref().map(|n| format!("#{n}")).unwrap_or_default();
        let since = since(start_us, self.stored_us);
        let TimelineEvent { seq, event_type, data, .. } = self;
        let line =
            format!("{seq:>6}  {since:>9}  {event_type:<14}  {step:<12} {attempt:<4} {data}");
        line.trim_end().to_owned()
    }
}

/// Truncates a text to the shown length.
fn truncate(text: &str) -> String {
    match text.char_indices().nth(DATA_LETTERS) {
        Some((place, _)) => format!("{}…", &text[..place]),
        None => text.to_owned(),
    }
}

/// Formats the time since the start: with milliseconds at first, and coarser units for longer times.
pub fn since(start_us: u64, us: u64) -> String {
    let ms = us.saturating_sub(start_us) / 1000;
    let secs = ms / 1000;
    let mins = ms / 60_000;
    let hours = ms / 3_600_000;
    match hours {
        0 if mins == 0 => format!("+{secs}.{:03}s", ms % 1000),
        0 => format!("+{mins}m{:02}s", secs % 60),
        1..=47 => format!("+{hours}h{:02}m", mins % 60),
        _ => format!("+{}d{:02}h", hours / 24, hours % 24),
    }
}

/// One row per step of a snapshot.
pub fn steps(snapshot: &Value) -> Vec<Row> {
    let Some(Value::Object(steps)) = part(snapshot, "steps") else { return Vec::new() };
    let row = |(name, step): (&String, &Value)| {
        let status = part(step, "status").cloned().unwrap_or(Value::Null);
        vec![
            ("step".into(), Field::text(name)),
            ("status".into(), Field::Plain(status)),
            ("attempts".into(), Field::text(attempts(step))),
        ]
    };
    steps.iter().map(row).collect()
}

/// All attempts, with the events that began and ended each: `1 FAILED 2-3, 2 RUNNING 4-`.
fn attempts(step: &Value) -> String {
    let Some(Value::Array(all)) = part(step, "attempts") else { return String::new() };
    let seq =
        |attempt: &Value, name| part(attempt, name).map_or_else(String::new, |seq| seq.to_json());
    let shown = |(n, attempt): (usize, &Value)| {
        let status = part(attempt, "status").map_or_else(String::new, word);
        let events = format!("{}-{}", seq(attempt, "startedSeq"), seq(attempt, "endedSeq"));
        let events = if events == "-" { "" } else { &events };
        format!("{} {status} {events}", n + 1).trim_end().to_owned()
    };
    all.iter().enumerate().map(shown).collect::<Vec<_>>().join(", ")
}

/// A member of an object.
pub fn part<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    match value {
        Value::Object(fields) => fields.get(name),
        _ => None,
    }
}

/// A text without its quotes.
pub fn word(value: &Value) -> String {
    escape_control(&String::from_utf8_lossy(&value.as_text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = r#"{"eventType":"StepFailed","stepId":"pay","logicalAttemptId":"2","eventData":{"why":"no\u001b[31mpaper"},
        "persistedAt":"1970-01-01T00:00:02.500Z"}"#;

    #[test]
    fn an_event_is_a_line_and_a_row() {
        let event = TimelineEvent::of(7, &Value::from_json(EVENT).unwrap());
        let line = event.line(1_000_000);
        assert!(
            line.starts_with("     7    +1.500s  StepFailed      pay          #2   {"),
            "{line}"
        );
        assert!(!line.contains('\x1b'), "{line}");
        let seen: Vec<String> =
            event.row(1_000_000, Some("why")).iter().map(|(_, field)| field.display()).collect();
        assert_eq!(seen[..5], ["7", "+1.500s", "StepFailed", "pay", "2"]);
        assert_eq!(seen[6], "! why");
        let odd = TimelineEvent::of(1, &Value::Int(3));
        assert_eq!((odd.event_type.as_str(), odd.data.as_str()), ("?", "3"));
    }

    #[test]
    fn times_are_as_exact_as_they_are_long() {
        let after = |us: u64| since(5, 5 + us);
        assert_eq!(after(1_204_000), "+1.204s");
        assert_eq!(after(125_000_000), "+2m05s");
        assert_eq!(after(11_520_000_000), "+3h12m");
        assert_eq!(after(3 * 86_400_000_000), "+3d00h");
        assert_eq!(since(9, 5), "+0.000s", "an event from before");
    }

    #[test]
    fn long_data_is_cut_between_letters() {
        let long = "ä".repeat(DATA_LETTERS + 1);
        assert_eq!(truncate(&long), format!("{}…", "ä".repeat(DATA_LETTERS)));
        assert_eq!(truncate("kurz"), "kurz");
    }

    #[test]
    fn steps_show_every_try() {
        let snapshot = r#"{"steps":{"pay":{"status":"RUNNING","attempts":[{"status":"FAILED","startedSeq":2,"endedSeq":3},
            {"status":"RUNNING","startedSeq":5},{"status":"SKIPPED"}]}}}"#;
        let rows = steps(&Value::from_json(snapshot).unwrap());
        let seen: Vec<_> = rows[0].iter().map(|(_, field)| field.display()).collect();
        assert_eq!(seen, ["pay", "RUNNING", "1 FAILED 2-3, 2 RUNNING 5-, 3 SKIPPED"]);
    }
}

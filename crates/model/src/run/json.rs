//! JSON of events and snapshots, in the value encoding that preserves types.

use super::{CanonicalEvent, NewEvent, RunSnapshot};
use crate::{Code, Error, Name, Result, Value, from_value, to_value};

impl CanonicalEvent {
    /// Converts to JSON. Unlike a plain JSON serializer, it preserves bytes and numbers that JSON cannot
    /// represent.
    ///
    /// ```
    /// use mainstay_model::{Instant, NewEvent};
    /// let event = NewEvent::new("r", "Noted").value(vec![0xff_u8]).with_key("k");
    /// let json = event.stored(1, "e".into(), "k".into(), Instant::of_us(0)).to_json();
    /// assert!(json.starts_with(r#"{"runId":"r","runSeq":1,"eventId":"e","eventType":"Noted","eventData":{"$bytes":"/w=="}"#));
    /// ```
    pub fn to_json(&self) -> String {
        let text = |text: &str| Some(Value::from(text).to_json());
        let maybe = |part: &Option<String>| part.as_deref().and_then(text);
        let known = [
            ("runId", text(&self.run_id)),
            ("runSeq", Some(self.run_seq.to_string())),
            ("eventId", text(&self.event_id)),
            ("stepId", maybe(&self.step_id)),
            ("engineAttemptId", maybe(&self.engine_attempt_id)),
            ("logicalAttemptId", maybe(&self.logical_attempt_id)),
            ("eventType", text(&self.event_type)),
            ("eventData", Some(self.event_data.to_json())),
            ("idempotencyKey", text(&self.idempotency_key)),
            ("emittedAt", text(self.emitted_at.as_str())),
            ("persistedAt", self.persisted_at.as_ref().and_then(|at| text(at.as_str()))),
            ("planVersion", maybe(&self.plan_version)),
            ("planId", maybe(&self.plan_id)),
            ("adapterVersion", maybe(&self.adapter_version)),
            ("engineRunRef", self.engine_run_ref.as_ref().map(Value::to_json)),
            ("causedBySignalId", maybe(&self.caused_by_signal_id)),
            ("parentEventId", maybe(&self.parent_event_id)),
            ("contractVersion", text(&self.contract_version)),
        ];
        let known =
            known.into_iter().filter_map(|(name, json)| Some(format!("\"{name}\":{}", json?)));
        let named = |(name, value): (&String, &Value)| {
            format!("{}:{}", Value::from(name.as_str()).to_json(), value.to_json())
        };
        let fields: Vec<String> = known.chain(self.more.iter().map(named)).collect();
        format!("{{{}}}", fields.join(","))
    }
}

impl NewEvent {
    /// Parses the events of a run from a JSON array. An event may omit its run but must not name another.
    ///
    /// ```
    /// use mainstay_model::{Name, NewEvent};
    /// let run = Name::new("r")?;
    /// let events = NewEvent::list_from_json(&run, r#"[{"eventType":"RunStarted","planVersion":"1"}]"#)?;
    /// assert_eq!(events, [NewEvent::new("r", "RunStarted").plan("1")]);
    /// let other = NewEvent::list_from_json(&run, r#"[{"eventType":"RunStarted","runId":"s"}]"#);
    /// assert_eq!(other.unwrap_err().position(), Some(0));
    /// # Ok::<(), mainstay_model::Error>(())
    /// ```
    pub fn list_from_json(run: &Name, text: &str) -> Result<Vec<NewEvent>> {
        let Value::Array(events) = Value::from_json_exact(text)? else {
            let message = "events are a JSON array of objects, as [{\"eventType\":\"RunStarted\"}]";
            return Err(Error::new(Code::InvalidArgument, message));
        };
        events
            .into_iter()
            .enumerate()
            .map(|(place, event)| of_run(run, event).map_err(|error| error.at_position(place)))
            .collect()
    }
}

fn of_run(run: &Name, event: Value) -> Result<NewEvent> {
    let mut event: NewEvent = from_value(event)?;
    if event.run_id.is_empty() {
        event.run_id = run.as_str().to_owned();
    }
    if event.run_id == run.as_str() {
        return Ok(event);
    }
    let message = format!("an event of run `{}` among those of `{run}`", event.run_id);
    Err(Error::new(Code::InvalidArgument, message))
}

impl RunSnapshot {
    /// Converts to JSON, including the hash.
    ///
    /// ```
    /// use mainstay_model::RunSnapshot;
    /// let snapshot = RunSnapshot::new("r");
    /// assert!(snapshot.to_json().contains(&format!(r#""hash":"{}""#, snapshot.hash())));
    /// ```
    pub fn to_json(&self) -> String {
        // A snapshot has only texts and integers, all of which convert to values.
        let mut value = to_value(self).unwrap_or_default();
        if let Value::Object(fields) = &mut value {
            fields.insert("hash".to_owned(), self.hash().into());
        }
        value.to_json()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Instant;

    fn event() -> CanonicalEvent {
        let text = r#"{"runId":"r","eventType":"StepStarted","stepId":"s","engineAttemptId":"2","logicalAttemptId":"1",
            "planVersion":"7","planId":"p","idempotencyKey":"k","emittedAt":"2026-02-11T10:00:00.000Z","adapterVersion":"a",
            "engineRunRef":{"w":1},"causedBySignalId":"c","parentEventId":"p","tenant":"\u0000t\"","eventData":[1,2.5,null]}"#;
        let event: NewEvent = serde_json::from_str(text).unwrap();
        event.stored(3, "e".into(), "k".into(), Instant::of_us(9_000))
    }

    #[test]
    fn the_json_of_an_event_is_what_serde_writes_where_json_has_words() {
        let event = event();
        let parsed: serde_json::Value = serde_json::from_str(&event.to_json()).unwrap();
        assert_eq!(parsed, serde_json::to_value(&event).unwrap());
        let brief =
            NewEvent::new("r", "Noted").stored(1, "e".into(), "k".into(), Instant::of_us(0));
        let parsed: serde_json::Value = serde_json::from_str(&brief.to_json()).unwrap();
        assert_eq!(parsed, serde_json::to_value(&brief).unwrap());
    }

    #[test]
    fn bytes_and_odd_numbers_come_back_as_they_were() {
        let mut event = event();
        event.event_data = vec![Value::from(&b"\xff"[..]), Value::Float(f64::INFINITY)].into();
        let value = Value::from_json(&event.to_json()).unwrap();
        assert_eq!(from_value::<CanonicalEvent>(value).unwrap(), event);
    }

    #[test]
    fn what_is_no_list_of_events_is_refused() {
        let run = Name::new("r").unwrap();
        for wrong in [
            "",
            "{}",
            "[1]",
            "[{}]",
            r#"[{"eventType":1}]"#,
            r#"[{"eventType":"T","emittedAt":"noon"}]"#,
        ] {
            assert!(NewEvent::list_from_json(&run, wrong).is_err(), "{wrong}");
        }
        assert_eq!(NewEvent::list_from_json(&run, "[]").unwrap(), []);
    }
}

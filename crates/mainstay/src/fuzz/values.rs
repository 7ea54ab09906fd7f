//! Fuzz target for values and fields as bytes, and for user text: JSON, versions, instants, names of fields.

use mainstay_model::{
    CanonicalEvent, Field, Fields, Instant, Name, NewEvent, RunStatus, Value, Version, VersionKind,
    codec, from_value, to_value,
};

/// Decodes values and texts and checks that each survives a round trip. The bytes of values and records must
/// be canonical.
pub fn values(bytes: &[u8]) {
    value(bytes);
    fields(bytes);
    if let Some(version) = Version::from_bytes(bytes) {
        assert_eq!(version.to_bytes().as_slice(), bytes);
    }
    assert_eq!(&*Value::from_text(bytes).as_text(), bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        json(text);
        words(text);
        events(text);
    }
}

fn encoded(value: &Value) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    codec::encode(value, &mut bytes).ok().map(|_| bytes)
}

fn value(bytes: &[u8]) {
    let text = codec::text(bytes);
    let Ok(value) = codec::decode(bytes) else { return };
    assert_eq!(encoded(&value).as_deref(), Some(bytes), "a value has one form");
    assert_eq!(text.as_deref(), Ok(&*value.as_text()));
    json(&value.to_json());
    let same = Value::from_json_exact(&value.to_json()).expect("what was written can be read");
    assert_eq!(same.to_json(), value.to_json());
}

fn fields(bytes: &[u8]) {
    let Ok(fields) = Fields::decode(bytes) else { return };
    let mut written = Vec::new();
    if fields.encode(&mut written).is_ok() {
        assert_eq!(written, bytes, "a record has one form");
    }
    for (field, value) in fields.iter() {
        assert_eq!(Fields::find(bytes, field), Ok(Some(value)));
        let text = field.to_text();
        assert_eq!(Field::from_text(&text).as_ref(), Ok(field));
    }
    let names: Vec<Field> = fields.iter().map(|(field, _)| field.clone()).collect();
    assert_eq!(Fields::decode_some(bytes, &names).as_ref(), Ok(&fields));
}

fn json(text: &str) {
    let Ok(value) = Value::from_json(text) else { return };
    // Values that are too deep or too large are refused when they are stored.
    let Some(bytes) = encoded(&value) else { return };
    let again = Value::from_json(&value.to_json()).expect("what was written can be read");
    assert_eq!(encoded(&again), Some(bytes), "JSON loses nothing");
}

fn words(text: &str) {
    if let Ok(field) = Field::from_text(text) {
        assert_eq!(Field::from_text(&field.to_text()), Ok(field));
    }
    if let Ok(version) = text.parse::<Version>() {
        assert_eq!(version.to_string().parse(), Ok(version));
    }
    if let Ok(kind) = text.parse::<VersionKind>() {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    if let Ok(moment) = Instant::parse(text) {
        assert_eq!(moment.as_str(), text);
        let _ = Instant::parse(Instant::of_us(moment.stamp_us()).as_str()).expect("a moment");
    }
    if let Ok(status) = RunStatus::parse(text) {
        assert_eq!(RunStatus::of_number(status.number()), Some(status));
    }
    if let Ok(name) = Name::new(text) {
        assert_eq!(name.as_str(), text);
    }
}

fn events(text: &str) {
    let run = Name::new("r").expect("a name");
    for event in NewEvent::list_from_json(&run, text).unwrap_or_default() {
        let value = to_value(&event).expect("what was read can be written");
        let again: NewEvent = from_value(value).expect("what was written can be read");
        assert_eq!(format!("{again:?}"), format!("{event:?}"));
    }
    let Ok(Ok(event)) = Value::from_json_exact(text).map(from_value::<CanonicalEvent>) else {
        return;
    };
    let again = Value::from_json_exact(&event.to_json()).and_then(from_value::<CanonicalEvent>);
    assert_eq!(format!("{:?}", again.expect("what was written can be read")), format!("{event:?}"));
}

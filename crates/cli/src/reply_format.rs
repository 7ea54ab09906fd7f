//! Formats of replies: schemas that turn any reply into named fields.
//!
//! ```text
//!   [["a", 1], ["b", 2]] --Rows([name, counter])--> {name: a, counter: 1}, {name: b, counter: 2}
//! ```

use super::field::{Field, Row};
use super::output::RawFields;
use super::reply::Reply;
use mainstay::Value;
use std::borrow::Cow;

/// The order in which fields of branches and sessions are shown.
const ORDER: [&str; 11] = [
    "name",
    "parent",
    "fork_revision",
    "created_us",
    "depth",
    "children",
    "session",
    "next_request",
    "pending",
    "lease_ms",
    "expires_us",
];

/// The schema of a command's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFormat {
    /// One value with this name; nil if absent.
    One(&'static str),
    /// 1 or 0: whether the change happened.
    Flag(&'static str),
    /// A tuple with these names; nil if absent.
    Record(&'static [&'static str]),
    /// A list of values with this name.
    List(&'static str),
    /// A list of tuples with these names.
    Rows(&'static [&'static str]),
    /// A cursor, and a list of tuples with these names.
    Page(&'static [&'static str]),
    /// A text with a JSON object.
    Object,
    /// Any reply.
    Any,
}

/// A reply as rows. Error messages contain its `Debug` form.
#[derive(Debug, PartialEq)]
pub enum FormattedReply {
    /// Nothing was found, or nothing changed.
    Nothing,
    /// A single row.
    One(Row),
    /// Any number of rows.
    Many(Vec<Row>),
    /// The reply does not match its format, and is shown unchanged.
    Odd(Reply),
}

impl ReplyFormat {
    /// The fields that the format `raw` prints: those of the reply, without those of the request.
    pub fn raw_fields(self) -> RawFields {
        match self {
            ReplyFormat::One("value") => RawFields::Value,
            ReplyFormat::One(name) | ReplyFormat::Flag(name) | ReplyFormat::List(name) => {
                RawFields::Field(name)
            }
            ReplyFormat::Record(names) => RawFields::Fields(names),
            ReplyFormat::Rows(_)
            | ReplyFormat::Page(_)
            | ReplyFormat::Object
            | ReplyFormat::Any => RawFields::All,
        }
    }

    /// Converts a reply to rows.
    pub fn apply(self, reply: Reply, json: bool) -> FormattedReply {
        let field = |name, reply| (Cow::Borrowed(name), field(name, reply, json));
        match (self, reply) {
            (ReplyFormat::One(_) | ReplyFormat::Record(_) | ReplyFormat::Object, Reply::Nil) => {
                FormattedReply::Nothing
            }
            (ReplyFormat::Flag(_), Reply::Int(0)) => FormattedReply::Nothing,
            (ReplyFormat::Flag(name), Reply::Int(1)) => {
                FormattedReply::One(vec![(name.into(), Field::Plain(Value::Bool(true)))])
            }
            (ReplyFormat::One(name), reply) if is_plain(&reply) => {
                FormattedReply::One(vec![field(name, reply)])
            }
            (ReplyFormat::Record(names), Reply::Array(items)) if items.len() == names.len() => {
                FormattedReply::One(
                    names.iter().copied().zip(items).map(|(n, r)| field(n, r)).collect(),
                )
            }
            (ReplyFormat::List(name), Reply::Array(items)) if items.iter().all(is_plain) => {
                FormattedReply::Many(
                    items.into_iter().map(|item| vec![field(name, item)]).collect(),
                )
            }
            (ReplyFormat::Rows(names), Reply::Array(items)) => rows(names, items, json),
            (ReplyFormat::Page(names), Reply::Array(items)) => page(names, items, json),
            (ReplyFormat::Object, Reply::Text(text)) => object(text),
            (_, reply) => FormattedReply::Odd(reply),
        }
    }
}

fn rows(names: &'static [&'static str], items: Vec<Reply>, json: bool) -> FormattedReply {
    if !items.iter().all(|item| matches!(item, Reply::Array(fields) if fields.len() == names.len()))
    {
        return FormattedReply::Odd(Reply::Array(items));
    }
    let row = |item| match item {
        Reply::Array(fields) => {
            let named = names.iter().copied().zip(fields);
            named.map(|(name, reply)| (name.into(), field(name, reply, json))).collect()
        }
        _ => Row::new(),
    };
    FormattedReply::Many(items.into_iter().map(row).collect())
}

fn page(names: &'static [&'static str], mut items: Vec<Reply>, json: bool) -> FormattedReply {
    match items.pop() {
        Some(Reply::Array(found)) if items.len() == 1 => rows(names, found, json),
        last => FormattedReply::Odd(Reply::Array(items.into_iter().chain(last).collect())),
    }
}

fn object(text: Vec<u8>) -> FormattedReply {
    let parsed = std::str::from_utf8(&text).ok().and_then(|text| Value::from_json_exact(text).ok());
    let Some(Value::Object(mut fields)) = parsed else {
        return FormattedReply::Odd(Reply::Text(text));
    };
    let known = ORDER.into_iter().filter_map(|name| fields.remove_entry(name));
    let mut row: Vec<(String, Value)> = known.collect();
    row.extend(fields);
    let field = |(name, value): (String, Value)| match value {
        Value::Int(us) if is_stamp(&name) => (name.into(), Field::Stamp(us.unsigned_abs())),
        value => (name.into(), Field::Plain(value)),
    };
    FormattedReply::One(row.into_iter().map(field).collect())
}

fn is_plain(reply: &Reply) -> bool {
    !matches!(reply, Reply::Array(_) | Reply::Map(_) | Reply::Error(_))
}

fn is_stamp(name: &str) -> bool {
    name.ends_with("_us")
}

fn field(name: &str, reply: Reply, json: bool) -> Field {
    match reply {
        Reply::Int(us) if is_stamp(name) => Field::Stamp(us.unsigned_abs()),
        Reply::Int(ms) if name.ends_with("_at_ms") => Field::Millis(ms.unsigned_abs()),
        Reply::Text(text) if json && name == "value" => Field::Plain(json_or_text(&text)),
        Reply::Int(-1) if name == "ttl_ms" => Field::Plain(Value::Null),
        reply if name == "fields" => Field::Plain(fields(reply)),
        reply => Field::Plain(to_value(reply)),
    }
}

/// The fields of a record as an object. A reply of another form is converted as it is.
fn fields(reply: Reply) -> Value {
    let pairs = match reply {
        Reply::Map(pairs) => pairs,
        Reply::Array(items) if items.iter().all(is_pair) => {
            let pair = |item| match item {
                Reply::Array(mut pair) => Some((pair.pop()?, pair.pop()?)),
                _ => None,
            };
            items.into_iter().filter_map(pair).map(|(value, name)| (name, value)).collect()
        }
        other => return to_value(other),
    };
    let name = |name: Reply| {
        let bytes = to_value(name).as_text().into_owned();
        mainstay::Field::new(bytes).map(|field| field.to_text()).unwrap_or_default()
    };
    Value::Object(pairs.into_iter().map(|(field, item)| (name(field), to_value(item))).collect())
}

fn is_pair(item: &Reply) -> bool {
    matches!(item, Reply::Array(pair) if pair.len() == 2 && pair.iter().all(is_plain))
}

/// Parses a text as JSON; if it is not JSON, returns the text.
fn json_or_text(text: &[u8]) -> Value {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| Value::from_json_exact(text).ok());
    parsed.unwrap_or_else(|| Value::from_text(text))
}

/// Converts a reply to a value, for JSON output and for replies without a format.
pub fn to_value(reply: Reply) -> Value {
    match reply {
        Reply::Nil => Value::Null,
        Reply::Int(n) => Value::Int(n),
        Reply::Float(n) => Value::Float(n),
        Reply::Bool(yes) => Value::Bool(yes),
        Reply::Text(text) => Value::from_text(&text),
        Reply::Array(items) => Value::Array(items.into_iter().map(to_value).collect()),
        Reply::Map(pairs) => Value::Object(pairs.into_iter().map(pair).collect()),
        Reply::Error(line) => Value::Object([("error".to_owned(), line.into())].into()),
    }
}

fn pair((key, item): (Reply, Reply)) -> (String, Value) {
    (String::from_utf8_lossy(&to_value(key).as_text()).into_owned(), to_value(item))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply_formats::of_command;
    use mainstay_server::resp::table;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const PAIR: ReplyFormat = ReplyFormat::Rows(&["key", "stamp_us"]);

    fn pairs(items: &[&[Reply]]) -> Reply {
        Reply::Array(items.iter().map(|item| Reply::Array(item.to_vec())).collect())
    }

    #[test]
    fn rows_get_names_and_stamps_become_times() {
        let reply = pairs(&[&[Reply::text("a"), Reply::Int(7)]]);
        let row = vec![("key".into(), Field::text("a")), ("stamp_us".into(), Field::Stamp(7))];
        assert_eq!(PAIR.apply(reply, false), FormattedReply::Many(vec![row]));
    }

    #[test]
    fn a_record_is_an_object_of_its_fields() {
        let text = |bytes: &[u8]| Reply::Text(bytes.to_vec());
        let listed = pairs(&[&[text(b"a"), text(b"1")], &[text(b"\xff"), text(b"\x00\xff")]]);
        let mapped = Reply::Map(vec![(text(b"a"), text(b"1")), (text(b"\xff"), text(b"\x00\xff"))]);
        for fields in [listed, mapped] {
            let reply = Reply::Array(vec![fields, Reply::Int(3), Reply::Int(-1)]);
            let format = ReplyFormat::Record(&["fields", "counter", "ttl_ms"]);
            let FormattedReply::One(row) = format.apply(reply, false) else { panic!("no row") };
            let shown: Vec<_> = row.iter().map(|(_, field)| field.json()).collect();
            assert_eq!(shown, [r#"{"$bytes:/w==":{"$bytes":"AP8="},"a":"1"}"#, "3", "null"]);
        }
        let odd = Reply::Array(vec![Reply::Int(1)]);
        assert_eq!(field("fields", odd.clone(), false), Field::Plain(to_value(odd)));
    }

    /// Any reply that a server could send.
    fn replies() -> impl Strategy<Value = Reply> {
        let text = prop_oneof![
            vec(any::<u8>(), 0..8),
            "[{\\[a\":0-9,}\\]]{0,12}".prop_map(String::into_bytes)
        ];
        let leaf = prop_oneof![
            Just(Reply::Nil),
            any::<i64>().prop_map(Reply::Int),
            any::<f64>().prop_map(Reply::Float),
            any::<bool>().prop_map(Reply::Bool),
            text.prop_map(Reply::Text),
            ".{0,8}".prop_map(Reply::Error),
        ];
        leaf.prop_recursive(3, 32, 7, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..8).prop_map(Reply::Array),
                vec((inner.clone(), inner), 0..4).prop_map(Reply::Map),
            ]
        })
    }

    proptest! {
        /// No reply can cause a panic, whatever the command.
        #[test]
        fn any_reply_is_shown(reply in replies(), json: bool) {
            for command in table::all() {
                let rows = match of_command(command.name).apply(reply.clone(), json) {
                    FormattedReply::One(row) => vec![row],
                    FormattedReply::Many(rows) => rows,
                    FormattedReply::Nothing | FormattedReply::Odd(_) => Vec::new(),
                };
                for (_, field) in rows.iter().flatten() {
                    prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&field.json()).is_ok());
                    let _ = field.raw();
                }
            }
        }
    }

    #[test]
    fn a_page_is_its_rows() {
        let rows = pairs(&[&[Reply::text("k"), Reply::Int(7)]]);
        let page = |next| Reply::Array(vec![next, rows.clone()]);
        let format = ReplyFormat::Page(&["key", "stamp_us"]);
        let wanted = PAIR.apply(rows.clone(), false);
        assert_eq!(format.apply(page(Reply::Nil), false), wanted);
        assert_eq!(format.apply(page(Reply::text("k")), false), wanted);
        let odd = Reply::Array(vec![rows.clone()]);
        assert_eq!(format.apply(odd.clone(), false), FormattedReply::Odd(odd));
    }

    #[test]
    fn what_does_not_fit_its_shape_is_shown_as_it_is() {
        let reply = pairs(&[&[Reply::Int(1)]]);
        assert_eq!(PAIR.apply(reply.clone(), false), FormattedReply::Odd(reply));
        assert_eq!(
            ReplyFormat::Object.apply(Reply::text("no"), false),
            FormattedReply::Odd(Reply::text("no"))
        );
        assert_eq!(
            ReplyFormat::Flag("x").apply(Reply::Int(7), false),
            FormattedReply::Odd(Reply::Int(7))
        );
    }

    #[test]
    fn nil_and_zero_are_nothing_only_where_they_mean_it() {
        assert_eq!(ReplyFormat::One("value").apply(Reply::Nil, false), FormattedReply::Nothing);
        assert_eq!(
            ReplyFormat::Flag("deleted").apply(Reply::Int(0), false),
            FormattedReply::Nothing
        );
        let zero = FormattedReply::One(vec![("counter".into(), Field::number(0))]);
        assert_eq!(ReplyFormat::One("counter").apply(Reply::Int(0), false), zero);
    }

    #[test]
    fn a_value_is_read_as_json_only_when_asked() {
        let one = |field| FormattedReply::One(vec![("value".into(), field)]);
        let show = |text, json| ReplyFormat::One("value").apply(Reply::text(text), json);
        assert_eq!(show("[1]", false), one(Field::text("[1]")));
        let list = Value::Array(vec![Value::Int(1)]);
        assert_eq!(show("[1]", true), one(Field::Plain(list)));
        assert_eq!(show("not json", true), one(Field::text("not json")));
    }
}

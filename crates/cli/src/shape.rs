//! Shapes of replies: schemas that turn any reply into named fields.
//!
//! ```text
//!   [["a", 1], ["b", 2]] --Shape::Rows([name, counter])--> {name: a, counter: 1}, {name: b, counter: 2}
//! ```

use super::field::{Field, Row};
use super::output::Bare;
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
pub enum Shape {
    /// One value with this name; nil if absent.
    One(&'static str),
    /// 1 or 0: whether the change happened.
    Did(&'static str),
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

/// A reply as rows.
#[derive(Debug, PartialEq)]
pub enum Shown {
    /// Nothing was found, or nothing changed.
    Nothing,
    /// A single row.
    One(Row),
    /// Any number of rows.
    Many(Vec<Row>),
    /// The reply does not match its shape, and is shown unchanged.
    Odd(Reply),
}

impl Shape {
    /// The fields that the format `raw` prints: those of the reply, without those of the request.
    pub fn bare(self) -> Bare {
        match self {
            Shape::One("value") => Bare::Value,
            Shape::One(name) | Shape::Did(name) | Shape::List(name) => Bare::Field(name),
            Shape::Record(names) => Bare::Fields(names),
            Shape::Rows(_) | Shape::Page(_) | Shape::Object | Shape::Any => Bare::All,
        }
    }

    /// Converts a reply to rows.
    pub fn show(self, reply: Reply, json: bool) -> Shown {
        let field = |name, reply| (Cow::Borrowed(name), field(name, reply, json));
        match (self, reply) {
            (Shape::One(_) | Shape::Record(_) | Shape::Object, Reply::Nil) => Shown::Nothing,
            (Shape::Did(_), Reply::Int(0)) => Shown::Nothing,
            (Shape::Did(name), Reply::Int(1)) => {
                Shown::One(vec![(name.into(), Field::Plain(Value::Bool(true)))])
            }
            (Shape::One(name), reply) if is_plain(&reply) => Shown::One(vec![field(name, reply)]),
            (Shape::Record(names), Reply::Array(items)) if items.len() == names.len() => {
                Shown::One(names.iter().copied().zip(items).map(|(n, r)| field(n, r)).collect())
            }
            (Shape::List(name), Reply::Array(items)) if items.iter().all(is_plain) => {
                Shown::Many(items.into_iter().map(|item| vec![field(name, item)]).collect())
            }
            (Shape::Rows(names), Reply::Array(items)) => rows(names, items, json),
            (Shape::Page(names), Reply::Array(items)) => page(names, items, json),
            (Shape::Object, Reply::Text(text)) => object(text),
            (_, reply) => Shown::Odd(reply),
        }
    }
}

fn rows(names: &'static [&'static str], items: Vec<Reply>, json: bool) -> Shown {
    if !items.iter().all(|item| matches!(item, Reply::Array(fields) if fields.len() == names.len()))
    {
        return Shown::Odd(Reply::Array(items));
    }
    let row = |item| match item {
        Reply::Array(fields) => {
            let named = names.iter().copied().zip(fields);
            named.map(|(name, reply)| (name.into(), field(name, reply, json))).collect()
        }
        _ => Row::new(),
    };
    Shown::Many(items.into_iter().map(row).collect())
}

fn page(names: &'static [&'static str], mut items: Vec<Reply>, json: bool) -> Shown {
    match items.pop() {
        Some(Reply::Array(found)) if items.len() == 1 => rows(names, found, json),
        last => Shown::Odd(Reply::Array(items.into_iter().chain(last).collect())),
    }
}

fn object(text: Vec<u8>) -> Shown {
    let parsed = std::str::from_utf8(&text).ok().and_then(|text| Value::from_json_exact(text).ok());
    let Some(Value::Object(mut fields)) = parsed else { return Shown::Odd(Reply::Text(text)) };
    let known = ORDER.into_iter().filter_map(|name| fields.remove_entry(name));
    let mut row: Vec<(String, Value)> = known.collect();
    row.extend(fields);
    let field = |(name, value): (String, Value)| match value {
        Value::Int(us) if is_stamp(&name) => (name.into(), Field::Stamp(us.unsigned_abs())),
        value => (name.into(), Field::Plain(value)),
    };
    Shown::One(row.into_iter().map(field).collect())
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
        Reply::Text(text) if json && name == "value" => Field::Plain(typed(&text)),
        Reply::Int(-1) if name == "ttl_ms" => Field::Plain(Value::Null),
        reply if name == "fields" => Field::Plain(fields(reply)),
        reply => Field::Plain(value(reply)),
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
        other => return value(other),
    };
    let name = |name: Reply| {
        let bytes = value(name).as_text().into_owned();
        mainstay::Field::new(bytes).map(|field| field.to_text()).unwrap_or_default()
    };
    Value::Object(pairs.into_iter().map(|(field, item)| (name(field), value(item))).collect())
}

fn is_pair(item: &Reply) -> bool {
    matches!(item, Reply::Array(pair) if pair.len() == 2 && pair.iter().all(is_plain))
}

/// Parses a text as JSON; if it is not JSON, returns the text.
fn typed(text: &[u8]) -> Value {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| Value::from_json_exact(text).ok());
    parsed.unwrap_or_else(|| Value::from_text(text))
}

/// Converts a reply to a value, for JSON output and for replies without a shape.
pub fn value(reply: Reply) -> Value {
    match reply {
        Reply::Nil => Value::Null,
        Reply::Int(n) => Value::Int(n),
        Reply::Float(n) => Value::Float(n),
        Reply::Bool(yes) => Value::Bool(yes),
        Reply::Text(text) => Value::from_text(&text),
        Reply::Array(items) => Value::Array(items.into_iter().map(value).collect()),
        Reply::Map(pairs) => Value::Object(pairs.into_iter().map(pair).collect()),
        Reply::Error(line) => Value::Object([("error".to_owned(), line.into())].into()),
    }
}

fn pair((key, item): (Reply, Reply)) -> (String, Value) {
    (String::from_utf8_lossy(&value(key).as_text()).into_owned(), value(item))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes::shape;
    use mainstay_server::resp::table;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const PAIR: Shape = Shape::Rows(&["key", "stamp_us"]);

    fn pairs(items: &[&[Reply]]) -> Reply {
        Reply::Array(items.iter().map(|item| Reply::Array(item.to_vec())).collect())
    }

    #[test]
    fn rows_get_names_and_stamps_become_times() {
        let reply = pairs(&[&[Reply::text("a"), Reply::Int(7)]]);
        let row = vec![("key".into(), Field::text("a")), ("stamp_us".into(), Field::Stamp(7))];
        assert_eq!(PAIR.show(reply, false), Shown::Many(vec![row]));
    }

    #[test]
    fn a_record_is_an_object_of_its_fields() {
        let text = |bytes: &[u8]| Reply::Text(bytes.to_vec());
        let listed = pairs(&[&[text(b"a"), text(b"1")], &[text(b"\xff"), text(b"\x00\xff")]]);
        let mapped = Reply::Map(vec![(text(b"a"), text(b"1")), (text(b"\xff"), text(b"\x00\xff"))]);
        for fields in [listed, mapped] {
            let reply = Reply::Array(vec![fields, Reply::Int(3), Reply::Int(-1)]);
            let shape = Shape::Record(&["fields", "counter", "ttl_ms"]);
            let Shown::One(row) = shape.show(reply, false) else { panic!("no row") };
            let shown: Vec<_> = row.iter().map(|(_, field)| field.json()).collect();
            assert_eq!(shown, [r#"{"$bytes:/w==":{"$bytes":"AP8="},"a":"1"}"#, "3", "null"]);
        }
        let odd = Reply::Array(vec![Reply::Int(1)]);
        assert_eq!(field("fields", odd.clone(), false), Field::Plain(value(odd)));
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
                let rows = match shape(command.name).show(reply.clone(), json) {
                    Shown::One(row) => vec![row],
                    Shown::Many(rows) => rows,
                    Shown::Nothing | Shown::Odd(_) => Vec::new(),
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
        let shape = Shape::Page(&["key", "stamp_us"]);
        let wanted = PAIR.show(rows.clone(), false);
        assert_eq!(shape.show(page(Reply::Nil), false), wanted);
        assert_eq!(shape.show(page(Reply::text("k")), false), wanted);
        let odd = Reply::Array(vec![rows.clone()]);
        assert_eq!(shape.show(odd.clone(), false), Shown::Odd(odd));
    }

    #[test]
    fn what_does_not_fit_its_shape_is_shown_as_it_is() {
        let reply = pairs(&[&[Reply::Int(1)]]);
        assert_eq!(PAIR.show(reply.clone(), false), Shown::Odd(reply));
        assert_eq!(Shape::Object.show(Reply::text("no"), false), Shown::Odd(Reply::text("no")));
        assert_eq!(Shape::Did("x").show(Reply::Int(7), false), Shown::Odd(Reply::Int(7)));
    }

    #[test]
    fn nil_and_zero_are_nothing_only_where_they_mean_it() {
        assert_eq!(Shape::One("value").show(Reply::Nil, false), Shown::Nothing);
        assert_eq!(Shape::Did("deleted").show(Reply::Int(0), false), Shown::Nothing);
        let zero = Shown::One(vec![("counter".into(), Field::number(0))]);
        assert_eq!(Shape::One("counter").show(Reply::Int(0), false), zero);
    }

    #[test]
    fn a_value_is_read_as_json_only_when_asked() {
        let one = |field| Shown::One(vec![("value".into(), field)]);
        let show = |text, json| Shape::One("value").show(Reply::text(text), json);
        assert_eq!(show("[1]", false), one(Field::text("[1]")));
        let list = Value::Array(vec![Value::Int(1)]);
        assert_eq!(show("[1]", true), one(Field::Plain(list)));
        assert_eq!(show("not json", true), one(Field::text("not json")));
    }
}

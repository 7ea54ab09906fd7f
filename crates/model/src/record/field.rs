//! Field names and the sorted fields of a record.

use super::bytes;
use crate::{Code, Error, Result, Value};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;
use std::fmt;

/// The longest name of a field, in bytes.
pub const FIELD_LIMIT_BYTES: usize = 1024;

/// The prefix of a text that encodes bytes in base64.
const BYTES: &str = "$bytes:";

/// The name of a field: up to 1024 arbitrary bytes.
///
/// ```
/// use mainstay_model::Field;
/// assert_eq!(Field::new("state")?.as_bytes(), b"state");
/// assert!(Field::new(vec![0; 1025]).is_err());
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Field(SmallVec<[u8; 16]>);

impl Clone for Field {
    // Copies all bytes at once, which the derived clone of the vector does not.
    fn clone(&self) -> Field {
        Field(SmallVec::from_slice(&self.0))
    }
}

impl Field {
    /// Validates the length of a name.
    pub fn new(name: impl AsRef<[u8]>) -> Result<Field> {
        let name = name.as_ref();
        if name.len() > FIELD_LIMIT_BYTES {
            let message = format!("the field's name has {} bytes: 1024 is the most", name.len());
            return Err(Error::new(Code::InvalidField, message));
        }
        Ok(Field(SmallVec::from_slice(name)))
    }

    /// The name as bytes. Fields are in this byte order.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Encodes the name as text without loss. UTF-8 text stays as it is. Other bytes, and text that begins
    /// with `$bytes:`, become `$bytes:` and base64.
    ///
    /// ```
    /// use mainstay_model::Field;
    /// assert_eq!(Field::new("state")?.to_text(), "state");
    /// assert_eq!(Field::new(b"\x00\xff")?.to_text(), "$bytes:AP8=");
    /// assert_eq!(Field::from_text("$bytes:AP8=")?.as_bytes(), b"\x00\xff");
    /// # Ok::<(), mainstay_model::Error>(())
    /// ```
    pub fn to_text(&self) -> String {
        match std::str::from_utf8(&self.0) {
            Ok(text) if !text.starts_with(BYTES) => text.to_owned(),
            _ => format!("{BYTES}{}", STANDARD.encode(&self.0)),
        }
    }

    /// Decodes a name from its text.
    pub fn from_text(text: &str) -> Result<Field> {
        let Some(encoded) = text.strip_prefix(BYTES) else { return Field::new(text) };
        let wrong = |_| {
            let message = format!("the field {text:?} has no padded base64 behind `{BYTES}`");
            Error::new(Code::InvalidField, message)
        };
        Field::new(STANDARD.decode(encoded).map_err(wrong)?)
    }
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.serialize_bytes(self.as_bytes())
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Field, D::Error> {
        Field::new(<&[u8]>::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// The fields of a record, in byte order of their names.
///
/// ```
/// use mainstay_model::Fields;
/// let fields = Fields::of([("state", "pending"), ("worker", "w1")])?;
/// assert_eq!(fields.get("state"), Some(&b"pending"[..]));
/// assert_eq!(fields.text("worker"), Some("w1"));
/// assert_eq!(fields.len(), 2);
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(Field, Vec<u8>)>);

impl Fields {
    /// Collects fields with their values. For a duplicate name, the last value counts.
    pub fn of<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Fields> {
        pairs
            .into_iter()
            .map(|(name, value)| Ok((Field::new(name)?, value.as_ref().to_vec())))
            .collect()
    }

    /// Returns the value of a field.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        self.place(name.as_ref()).ok().map(|place| self.0[place].1.as_slice())
    }

    /// Returns the index of a field, or the index where it would be inserted.
    fn place(&self, name: &[u8]) -> std::result::Result<usize, usize> {
        self.0.binary_search_by(|(field, _)| field.as_bytes().cmp(name))
    }

    /// Returns the value of a field if it is UTF-8 text.
    pub fn text(&self, name: impl AsRef<[u8]>) -> Option<&str> {
        self.get(name).and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether no field exists.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the fields in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Field, &[u8])> {
        self.0.iter().map(|(field, value)| (field, value.as_slice()))
    }

    /// Sets a field. Returns the old value.
    pub fn insert(&mut self, field: Field, value: Vec<u8>) -> Option<Vec<u8>> {
        match self.place(field.as_bytes()) {
            Ok(place) => Some(std::mem::replace(&mut self.0[place].1, value)),
            Err(place) => {
                self.0.insert(place, (field, value));
                None
            }
        }
    }

    /// Removes a field. Returns its value.
    pub fn remove(&mut self, field: &Field) -> Option<Vec<u8>> {
        self.place(field.as_bytes()).ok().map(|place| self.0.remove(place).1)
    }

    /// Converts to an object with names as text ([`Field::to_text`]) and their values, as text where they are
    /// UTF-8.
    pub fn to_value(&self) -> Value {
        Value::Object(
            self.iter().map(|(field, value)| (field.to_text(), Value::from_text(value))).collect(),
        )
    }

    /// The approximate memory that the fields take, in bytes.
    pub fn weight_bytes(&self) -> usize {
        self.iter().map(|(field, value)| field.as_bytes().len() + value.len() + 64).sum()
    }

    /// Appends the encoded fields to `out`. Fails if they exceed the limits of a record.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        bytes::encode(self.iter(), out);
        bytes::check(self.len(), start, out)
    }

    /// Decodes the output of [`Fields::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Fields> {
        // Do not reserve memory for a damaged count: each field has at least two bytes.
        let mut fields = Vec::with_capacity(bytes::count(bytes)?.min(bytes.len() / 2));
        for pair in bytes::decode(bytes) {
            let (name, value) = pair?;
            fields.push((Field::new(name)?, value.to_vec()));
        }
        Ok(Fields(fields))
    }

    /// Decodes only the wanted fields from the output of [`Fields::encode`].
    pub fn decode_some(bytes: &[u8], wanted: &[Field]) -> Result<Fields> {
        let mut names: SmallVec<[&[u8]; 8]> = wanted.iter().map(Field::as_bytes).collect();
        names.sort_unstable();
        let mut names = names.into_iter().peekable();
        let mut fields = Vec::new();
        let mut stored = bytes::decode(bytes);
        // Both lists are sorted, so one pass up to the last wanted field is enough.
        while names.peek().is_some()
            && let Some((name, value)) = stored.next().transpose()?
        {
            while names.next_if(|wanted| *wanted < name).is_some() {}
            if names.next_if_eq(&name).is_some() {
                fields.push((Field::new(name)?, value.to_vec()));
            }
        }
        Ok(Fields(fields))
    }

    /// Finds one field in the encoded fields without decoding them.
    pub fn find<'b>(bytes: &'b [u8], wanted: &Field) -> Result<Option<&'b [u8]>> {
        bytes::find(bytes, wanted.as_bytes())
    }

    /// Finds several fields in the encoded fields in one pass. Returns their values in the order requested.
    pub fn find_all<'b>(bytes: &'b [u8], wanted: &[&[u8]]) -> Result<bytes::Found<'b>> {
        bytes::find_all(bytes, wanted)
    }

    /// Appends a changed copy of encoded fields (`None`: a record without fields) to `out`. Changes must be
    /// in order of their names, each name once.
    pub fn change(
        bytes: Option<&[u8]>,
        changes: &[bytes::Change<'_>],
        out: &mut Vec<u8>,
    ) -> Result<bytes::Changed> {
        bytes::change(bytes.unwrap_or(bytes::EMPTY), changes, out)
    }

    /// Returns the number of encoded fields.
    pub fn count(bytes: &[u8]) -> Result<usize> {
        bytes::count(bytes)
    }
}

impl FromIterator<(Field, Vec<u8>)> for Fields {
    fn from_iter<I: IntoIterator<Item = (Field, Vec<u8>)>>(pairs: I) -> Fields {
        let mut fields: Vec<(Field, Vec<u8>)> = pairs.into_iter().collect();
        // For a duplicate name, the last value counts. The list is reversed so that the last value comes
        // first and the stable sort and the dedup keep it.
        fields.reverse();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        fields.dedup_by(|later, first| later.0 == first.0);
        Fields(fields)
    }
}

impl IntoIterator for Fields {
    type Item = (Field, Vec<u8>);
    type IntoIter = std::vec::IntoIter<(Field, Vec<u8>)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        let mut out = Vec::new();
        bytes::encode(self.iter(), &mut out);
        to.serialize_bytes(&out)
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Fields, D::Error> {
        Fields::decode(<&[u8]>::deserialize(from)?).map_err(D::Error::custom)
    }
}

//! Secondary indexes over records: their declaration, and the index keys of a record.
//!
//! ```text
//!   record  key, fields --index--> | index u32 BE | values of its fields, in order | key |
//! ```

use crate::key::entry::damaged_record;
use crate::key::keyspace::{self, INDEXES, MAIN_ID};
use crate::key::order_preserving;
use mainstay_model::{Field, Fields, IndexInfo, Result, Revision, Value, codec};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub struct IndexDef {
    pub id: u32,
    pub prefix: String,
    pub fields: Vec<Field>,
    pub created: Revision,
    /// The revision from which the index is complete.
    pub ready: Option<Revision>,
    /// The record key, including its branch, up to which the index is filled.
    pub filled_to: Vec<u8>,
    pub filled: u64,
    /// The revision that dropped the index. The declaration is kept, so that its id is never reused.
    pub dropped: Option<Revision>,
}

/// Typical size of the encoded field values in an index key.
const NAME_ROOM_BYTES: usize = 64;

/// All indexes that writes maintain.
pub(crate) type IndexDefs = Arc<Vec<IndexDef>>;

impl IndexDef {
    /// Returns whether the index covers records with this key.
    pub fn covers(&self, key: &[u8]) -> bool {
        key.starts_with(self.prefix.as_bytes())
    }

    /// The index key of a record; `None` if the record lacks the first indexed field.
    pub fn name_of(&self, key: &[u8], payload: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut name = Vec::with_capacity(key.len() + NAME_ROOM_BYTES);
        name.extend_from_slice(&self.id.to_be_bytes());
        for (place, field) in self.fields.iter().enumerate() {
            let value = Fields::find(payload, field)?;
            if place == 0 && value.is_none() {
                return Ok(None);
            }
            order_preserving::put(value, &mut name);
        }
        name.extend_from_slice(key);
        Ok(Some(name))
    }

    /// The encoded value of the field at `place` in an index key.
    pub fn value_in<'n>(&self, name: &'n [u8], place: usize) -> Option<&'n [u8]> {
        let mut rest = name.get(4..)?;
        for _ in 0..place {
            rest = order_preserving::behind(rest)?;
        }
        let behind = order_preserving::behind(rest)?;
        rest.get(..rest.len() - behind.len())
    }

    /// The record key within an index key.
    pub fn key_in<'n>(&self, name: &'n [u8]) -> Option<&'n [u8]> {
        let mut rest = name.get(4..)?;
        for _ in &self.fields {
            rest = order_preserving::behind(rest)?;
        }
        Some(rest)
    }

    pub fn info(&self) -> IndexInfo {
        IndexInfo {
            id: self.id,
            prefix: self.prefix.clone(),
            fields: self.fields.clone(),
            created: self.created,
            ready: self.ready,
            filled: self.filled,
        }
    }

    /// The key under which the declaration is stored.
    pub fn key(&self) -> keyspace::Key {
        keyspace::key(INDEXES, MAIN_ID, &self.id.to_be_bytes())
    }

    pub fn encode(&self) -> Vec<u8> {
        let field = |field: &Field| Value::Bytes(field.as_bytes().to_vec());
        let record = Value::Array(vec![
            Value::Int(i64::from(self.id)),
            Value::String(self.prefix.clone()),
            Value::Array(self.fields.iter().map(field).collect()),
            Value::Int(self.created as i64),
            Value::Int(self.ready.map_or(-1, |ready| ready as i64)),
            Value::Bytes(self.filled_to.clone()),
            Value::Int(self.filled as i64),
            Value::Int(self.dropped.map_or(-1, |dropped| dropped as i64)),
        ]);
        let mut bytes = Vec::new();
        // A declaration is far below every limit of a value, so encoding cannot fail.
        let _ = codec::encode(&record, &mut bytes);
        bytes
    }

    pub fn decode(payload: &[u8]) -> Result<IndexDef> {
        use Value::{Array, Bytes, Int, String};
        let Array(record) = codec::decode(payload)? else { return Err(damaged_record("index")) };
        match record.as_slice() {
            [
                Int(id),
                String(prefix),
                Array(fields),
                Int(created),
                Int(ready),
                Bytes(filled_to),
                Int(filled),
                Int(dropped),
            ] => Ok(IndexDef {
                id: *id as u32,
                prefix: prefix.clone(),
                fields: fields.iter().map(field_of).collect::<Result<_>>()?,
                created: *created as u64,
                ready: (*ready >= 0).then_some(*ready as u64),
                filled_to: filled_to.clone(),
                filled: *filled as u64,
                dropped: (*dropped >= 0).then_some(*dropped as u64),
            }),
            _ => Err(damaged_record("index")),
        }
    }
}

fn field_of(value: &Value) -> Result<Field> {
    match value {
        Value::Bytes(name) => Field::new(name),
        _ => Err(damaged_record("index")),
    }
}

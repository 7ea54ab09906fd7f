//! Values in PostgreSQL's binary format, which saves it parsing texts.

use bytes::BytesMut;
use std::error::Error;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

/// The version byte before the text of a `jsonb`.
const JSONB_VERSION: u8 = 1;

type Trouble = Box<dyn Error + Sync + Send>;

/// JSON as text.
#[derive(Debug)]
pub struct Jsonb<'a>(pub &'a str);

impl ToSql for Jsonb<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Trouble> {
        out.extend_from_slice(&[JSONB_VERSION]);
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    accepts!(JSONB);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Jsonb<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Jsonb<'a>, Trouble> {
        match raw.split_first() {
            Some((&JSONB_VERSION, text)) => Ok(Jsonb(std::str::from_utf8(text)?)),
            _ => Err("PostgreSQL sent a jsonb of a version that is not known".into()),
        }
    }

    accepts!(JSONB);
}

/// The bytes of a UUID.
#[expect(dead_code, reason = "it is read from the row, and nothing is done with it")]
pub struct Uuid(pub [u8; 16]);

impl<'a> FromSql<'a> for Uuid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Uuid, Trouble> {
        Ok(Uuid(raw.try_into()?))
    }

    accepts!(UUID);
}

//! Wire format: versioned binary frames for clients in other processes.
//!
//! ```text
//!   frame    version (1) | content, in postcard format
//!   value    length | canonical bytes          error    code's name | message | position | keys
//! ```
//!
//! A frame holds exactly one item, whose type both sides know. Fields and variants are numbered in the order
//! of their definitions: new ones come last, and any other change raises the version. The bytes are
//! documented in `docs/formats.md` and pinned by a test.
//!
//! Decoding a frame takes memory proportional to its length: texts and bytes are bounded by the input, and
//! lists grow as their elements are read.

pub mod fields;
mod impls;
mod request;

pub use request::*;

use crate::limits::TRANSACTION_LIMIT_BYTES;
use crate::{Code, Error, Result};
use serde::{Deserialize, Serialize};

/// The version byte at the start of a frame.
pub const VERSION: u8 = 1;

/// The largest request frame: a transaction of the largest size plus the encoding overhead.
pub const FRAME_LIMIT_BYTES: usize = TRANSACTION_LIMIT_BYTES + (15 << 20);

/// The most elements of a list in a frame.
pub const LIST_LIMIT: usize = 1 << 20;

/// The deepest value in a frame. It exceeds the storage limit, so that the storage check reports the error.
pub const VALUE_DEPTH: usize = 2 * crate::limits::VALUE_LIMIT_DEPTH;

/// Encodes a frame.
///
/// ```
/// use mainstay_model::{CellCommand, Name, Transaction, wire};
/// let transaction = Transaction::new().step(CellCommand::set(Name::new("a")?, 1));
/// let frame = wire::encode(&transaction)?;
/// assert_eq!(wire::decode::<Transaction>(&frame)?, transaction);
/// # Ok::<(), mainstay_model::Error>(())
/// ```
pub fn encode<T: Serialize + ?Sized>(what: &T) -> Result<Vec<u8>> {
    // Encoding fails only for a value that is nested too deeply.
    postcard::to_extend(what, vec![VERSION]).map_err(|_| {
        let message = format!("a value is nested deeper than {VALUE_DEPTH} levels");
        Error::new(Code::ValueTooDeep, message)
    })
}

/// Decodes a frame. Fails if bytes are left over.
pub fn decode<'f, T: Deserialize<'f>>(frame: &'f [u8]) -> Result<T> {
    let Some((&version, body)) = frame.split_first() else { return Err(unreadable("is empty")) };
    if version != VERSION {
        let message = format!("the frame has version {version}, and this program knows {VERSION}");
        return Err(Error::new(Code::NewerFormat, message));
    }
    match postcard::take_from_bytes(body) {
        Ok((what, [])) => Ok(what),
        Ok(_) => Err(unreadable("goes on behind its end")),
        Err(error) => Err(unreadable(&format!("cannot be read: {error}"))),
    }
}

#[cold]
fn unreadable(why: &str) -> Error {
    let message = format!("the frame {why}: the other side speaks something else");
    Error::new(Code::InvalidArgument, message)
}

#[cfg(test)]
mod tests;

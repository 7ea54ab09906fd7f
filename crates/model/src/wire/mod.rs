//! Values of the waist as bytes, for those who are not in this process.
//!
//! ```text
//!   frame    version (1) | what it holds, by postcard
//!   value    length | canonical bytes          error    code's name | message | position | keys
//! ```
//!
//! A frame holds one thing and ends with it; what kind of thing it is, both sides know. Fields and
//! variants are counted in the order of the types' definitions: new ones come last, and whatever
//! else changes them raises the version. The bytes are in `docs/formats.md`, and a test holds them.
//!
//! Reading a frame takes memory in proportion to its length: texts and bytes are as long as what is
//! there, lists grow with what is read, and so does everything else.

pub mod fields;
mod impls;

use crate::limits::TRANSACTION_LIMIT_BYTES;
use crate::{Code, Error, Result};
use serde::{Deserialize, Serialize};

/// The version that a frame begins with.
pub const VERSION: u8 = 1;

/// The longest frame that is taken for a request: a transaction of the largest size, and what is
/// around its values.
pub const FRAME_LIMIT_BYTES: usize = TRANSACTION_LIMIT_BYTES + (15 << 20);

/// The most elements of a list in a frame.
pub const LIST_LIMIT: usize = 1 << 20;

/// The deepest value in a frame. It is more than may be stored, so that whoever stores can say so.
pub const VALUE_DEPTH: usize = 2 * crate::limits::VALUE_LIMIT_DEPTH;

/// A frame of something.
///
/// ```
/// use mainstay_model::{CellCommand, Name, Transaction, wire};
/// let transaction = Transaction::new().step(CellCommand::set(Name::new("a")?, 1));
/// let frame = wire::encode(&transaction)?;
/// assert_eq!(wire::decode::<Transaction>(&frame)?, transaction);
/// # Ok::<(), mainstay_model::Error>(())
/// ```
pub fn encode<T: Serialize + ?Sized>(what: &T) -> Result<Vec<u8>> {
    // Only a value can fail to be written, and only by its depth.
    postcard::to_extend(what, vec![VERSION]).map_err(|_| {
        let message = format!("a value is nested deeper than {VALUE_DEPTH} levels");
        Error::new(Code::ValueTooDeep, message)
    })
}

/// What a frame holds; it must be all there is.
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

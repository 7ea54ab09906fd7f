//! Typed access to keyed state, with codecs of keys.

mod key;
mod typed;

pub use key::StateKeyCodec;
pub use typed::{TypedPage, TypedState};

//! Replies, as the client of the library has them.

pub use mainstay::remote::Reply;

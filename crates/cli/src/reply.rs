//! RESP replies, re-exported from the client library.

pub use mainstay::remote::Reply;

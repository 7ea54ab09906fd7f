//! Session protocol, client side: numbered requests, retries, keep-alives and server messages.

pub(crate) mod keep_alive;
pub(crate) mod request;
pub(crate) mod server_messages;
pub(crate) mod session_core;
pub(crate) mod window;

//! The server of Mainstay: its faces to the network.

pub mod http;

//! The server of the Mainstay state engine: its faces, as a library for the program `mainstay`.

pub mod http;
mod process;
pub mod resp;
pub mod serve;
pub mod telemetry;

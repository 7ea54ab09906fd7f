//! The server of the Mainstay state engine: its faces, as a library for the program `mainstay`.

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod http;
pub mod resp;
pub mod serve;

//! Helpers for the threads of this crate.

use mainstay::{Code, Error, Result};
use std::any::Any;
use std::thread::JoinHandle;

/// Starts a named thread.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|error| {
        Error::new(Code::Io, format!("the thread `{name}` could not be started: {error}"))
    })
}

/// Converts a panic to an error.
#[cold]
pub(crate) fn panic_error(what: &str, panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    Error::new(Code::Unsupported, format!("{what} panicked, which is a bug to be reported: {text}"))
}

/// Creates a single-threaded runtime, for object stores and transports.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| {
        Error::new(Code::Io, format!("an async runtime could not be started: {error}"))
    })
}

//! Keyed state through the public interface, with several threads or with crashes. Single-threaded behaviour
//! is tested in the conformance suite.

mod crashes;
mod races;

//! Keyed state through the public interface, where several are at work or the process ends in between. What one caller
//! sees of it is in the conformance suite.

mod crashes;
mod races;

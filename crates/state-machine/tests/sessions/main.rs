//! Tests of the session machine: examples of each rule, properties, random programs against a naive model,
//! damaged snapshots, and planted faults that the tests must detect.

mod bounds;
mod explorer;
#[cfg(feature = "planted-faults")]
mod faults;
mod oracle;
mod program;
mod properties;
mod rules;
mod sample;
mod snapshots;

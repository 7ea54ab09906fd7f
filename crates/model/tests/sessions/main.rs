//! Session machines: examples of each rule, properties, random programs against a naive model, damage, and faults that
//! were planted to see that the tests find them.

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

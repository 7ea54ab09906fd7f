//! Data model of a job: its name, record, state machine, versions and sort key.

pub(crate) mod job;
pub(crate) mod name;
pub(crate) mod sort_key;
pub(crate) mod state;
pub(crate) mod version;

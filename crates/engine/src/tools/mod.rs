//! Offline and maintenance tools: backup, export and the doctor.

pub(crate) mod backup;
pub mod doctor;
pub(crate) mod export;

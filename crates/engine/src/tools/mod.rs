//! Offline and maintenance tools: backup, export and the doctor.

pub mod backup;
pub mod doctor;
pub mod export;

//! Random programs: their steps, their generators, and their execution on the engine and on the model.

pub mod branch_steps;
pub mod driver;
pub mod make;
pub mod open_steps;
pub mod read_steps;
pub mod record_reads;
pub mod record_steps;
pub mod run_steps;
pub mod space_steps;
pub mod step;
pub mod string_steps;
pub mod tally;
pub mod transfer_steps;

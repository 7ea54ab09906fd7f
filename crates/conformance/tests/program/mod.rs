//! Random programs: what a step can be, how it is made, how it runs on the engine and the model.

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

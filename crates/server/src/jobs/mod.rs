//! Jobs and locks for all front ends.
//!
//! ```text
//!   RESP, HTTP --> Order --> Desk --> mainstay_jobs
//!                             ^
//!          start_sweeping --+  periodically
//! ```

mod desk;
mod keys;
mod objects;
mod order;
mod settings;
mod sweeping;

pub use desk::Desk;
pub use keys::Keys;
pub use order::{Claim, Given, New, Order, Outcome};
pub use settings::{Settings, TypeSettings};
pub use sweeping::start_sweeping;

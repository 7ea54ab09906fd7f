//! Jobs and locks, as all faces have them.
//!
//! ```text
//!   RESP, HTTP --> Order --> Desk --> mainstay_jobs
//!                             ^
//!          start_sweeping --+  from time to time
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

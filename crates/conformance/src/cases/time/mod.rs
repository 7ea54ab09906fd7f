//! Time cases: time travel, the clock, expiry and retention.

pub mod clock;
pub mod expiry;
pub mod retention;
pub mod travel;

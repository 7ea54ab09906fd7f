//! Limits: each has a number, and a clear error beyond it.

pub mod pages;
pub mod sizes;

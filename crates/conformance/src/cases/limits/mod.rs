//! Limits: each is an exact number, with a clear error beyond it.

pub mod pages;
pub mod sizes;

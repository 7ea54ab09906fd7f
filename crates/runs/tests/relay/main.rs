//! The relay delivers every message at least once and in order.

mod basics;
mod files;
mod random;
mod threads;
mod world;

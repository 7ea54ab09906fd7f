//! The relay: what is put is delivered, at least once and in order.

mod basics;
mod files;
mod random;
mod threads;
mod world;

//! The remote client: what it does when connections break, servers are silent or talk nonsense, and
//! when many share it.

#[path = "../support/mod.rs"]
mod support;

mod asynchronous;
mod breaking;
mod giving_up;
mod killing;
mod proxy;
mod sharing;
mod strangers;

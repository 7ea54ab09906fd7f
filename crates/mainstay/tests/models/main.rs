//! Models: a few threads on one database, under a scheduler that explores many thread interleavings.
//!
//! ```text
//!   writers, readers, watchers  --Database-->  sequencer, tickets, wake-ups  --Files-->  a disk that tracks syncs
//!        every lock, atomic and sleep in between is shuttle's: a point where it may switch to another thread
//! ```
//!
//! A lost wake-up is a deadlock, which shuttle reports with the schedule that leads to it. Schedules come
//! from a seed, which is printed. `MAINSTAY_SEED` sets another seed, `MAINSTAY_SCHEDULES` the number of
//! schedules, and `MAINSTAY_REPLAY` repeats the schedule that a failure has printed. shuttle explores
//! interleavings only, not weak memory orders.

mod answers;
mod branches;
mod checker;
mod disk;
mod failures;
mod planted;
mod room;
mod visibility;
mod watching;
mod world;

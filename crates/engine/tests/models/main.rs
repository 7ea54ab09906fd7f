//! Models: a few threads at one database, under a scheduler that tries many orders of what they do.
//!
//! ```text
//!   writers, readers, watchers  --Database-->  sequencer, tickets, bells  --Files-->  a disk that notes what is synced
//!        every lock, atomic and sleep on the way is shuttle's: a place where it lets another thread go on
//! ```
//!
//! A wake-up that is lost is a deadlock, which shuttle reports with the schedule that leads to it. Schedules come from
//! a seed, which is printed: `MAINSTAY_SEED` takes another one, `MAINSTAY_SCHEDULES` more of them, and `MAINSTAY_REPLAY`
//! repeats the one that a failure has printed. shuttle orders what threads do; it does not model memory that is seen late.

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

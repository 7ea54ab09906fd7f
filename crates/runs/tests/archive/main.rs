//! The archive: a run is in the database or in a file that was read back, at every moment.

mod crashes;
mod damage;
mod policy;
mod round_trip;
mod store;
mod world;

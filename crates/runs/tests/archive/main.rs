//! The archive: at every moment a run is in the database or in a verified file.

mod crashes;
mod damage;
mod policy;
mod round_trip;
mod store;
mod world;

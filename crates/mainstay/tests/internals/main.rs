//! White-box tests of the engine: they use a whole database and look inside it.

mod background;
mod corruption_fixture;
mod doctor_runs;
mod doctor_sessions;
mod doctor_spaces;
mod fold;
mod merge_candidates;
mod prefetch;
mod read_view;
mod reclassify;
mod search;
mod tombstone_gc;
mod work;
mod written_records;

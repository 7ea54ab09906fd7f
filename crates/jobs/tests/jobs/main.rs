//! What the jobs promise, rule by rule, as races and as random programs beside a readable model.

mod claims;
mod graphs;
mod holders;
mod locks;
mod model;
mod objects;
mod races;
mod random;
mod sweeps;
mod world;

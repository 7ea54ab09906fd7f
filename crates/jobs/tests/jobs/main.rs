//! Tests of the job guarantees, rule by rule, as races and as random programs against a readable model.

mod bell;
mod branches;
mod claims;
mod costs;
mod damage;
mod graphs;
mod handles;
mod holders;
mod locks;
mod model;
mod objects;
mod past;
mod races;
mod random;
mod sizes;
mod sweeps;
mod tasks;
mod waiting;
mod within;
mod world;

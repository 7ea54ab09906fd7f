//! The names under which positions stand with the states.
//!
//! ```text
//!   operator/<name>    1: whose states these are
//!   source/<name>      how far the source was read
//!   sink/<name>        how much the sink has taken
//!   watermark/<name>   how far event time has come, in milliseconds
//!   late/<name>        how many items came too late
//!   division           how often the work had been divided anew when this shard began
//! ```
//!
//! In the space of an idempotent sink `sink/<name>` is how much shard 0 has put there before any division, and
//! `sink/<name>/<epoch>/<shard>` what others have.

use crate::sink::Share;

pub(crate) const OPERATORS: &str = "operator/";
pub(crate) const SOURCES: &str = "source/";
const SINKS: &str = "sink/";
const LATE: &str = "late/";
/// How often the work had been divided anew when a shard began.
pub(crate) const DIVISION: &str = "division";

pub(crate) fn operator(name: &str) -> String {
    format!("{OPERATORS}{name}")
}

pub(crate) fn source(name: &str) -> String {
    format!("{SOURCES}{name}")
}

pub(crate) fn sink(name: &str) -> String {
    format!("{SINKS}{name}")
}

/// How much of a shard's outputs stands in a space that shards may share.
pub(crate) fn sink_of(name: &str, share: Share) -> String {
    match share == Share::default() {
        true => sink(name),
        false => format!("{}/{}/{}", sink(name), share.epoch, share.shard),
    }
}

/// Whether a position is of what each shard has for itself.
pub(crate) fn is_of_one_shard(name: &str) -> bool {
    name.starts_with(SINKS) || name.starts_with(LATE) || name == DIVISION
}

pub(crate) fn watermark(operator: &str) -> String {
    format!("watermark/{operator}")
}

pub(crate) fn late(operator: &str) -> String {
    format!("{LATE}{operator}")
}

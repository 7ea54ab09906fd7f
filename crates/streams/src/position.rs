//! Names of the positions that are stored with the states.
//!
//! ```text
//!   operator/<name>    1: the owner of these states
//!   source/<name>      the position of the source
//!   sink/<name>        the position of the sink
//!   watermark/<name>   the watermark, in milliseconds
//!   late/<name>        the number of late items
//!   division           the number of rescalings before this shard began
//! ```
//!
//! In the space of an idempotent sink, `sink/<name>` is the position of shard 0 before any rescaling, and
//! `sink/<name>/<epoch>/<shard>` that of the other shards.

use crate::sink::Share;

pub(crate) const OPERATORS: &str = "operator/";
pub(crate) const SOURCES: &str = "source/";
const SINKS: &str = "sink/";
const LATE: &str = "late/";
/// The number of rescalings before a shard began.
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

/// The position of a shard's outputs in a space that shards may share.
pub(crate) fn sink_of(name: &str, share: Share) -> String {
    if share == Share::default() {
        sink(name)
    } else {
        format!("{}/{}/{}", sink(name), share.epoch, share.shard)
    }
}

/// Returns whether a position belongs to one shard only.
pub(crate) fn is_of_one_shard(name: &str) -> bool {
    name.starts_with(SINKS) || name.starts_with(LATE) || name == DIVISION
}

pub(crate) fn watermark(operator: &str) -> String {
    format!("watermark/{operator}")
}

pub(crate) fn late(operator: &str) -> String {
    format!("{LATE}{operator}")
}

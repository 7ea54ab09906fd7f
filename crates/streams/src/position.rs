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

use crate::sink::ShardId;

pub(crate) const OPERATORS: &str = "operator/";
pub(crate) const SOURCES: &str = "source/";
const SINKS: &str = "sink/";
const LATE: &str = "late/";
/// The number of rescalings before a shard began.
pub(crate) const RESCALE_COUNT: &str = "division";

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
pub(crate) fn shard_sink(name: &str, shard_id: ShardId) -> String {
    if shard_id == ShardId::default() {
        sink(name)
    } else {
        format!("{}/{}/{}", sink(name), shard_id.epoch, shard_id.shard)
    }
}

/// Returns whether a position belongs to one shard only.
pub(crate) fn is_shard_local(name: &str) -> bool {
    name.starts_with(SINKS) || name.starts_with(LATE) || name == RESCALE_COUNT
}

pub(crate) fn watermark(operator: &str) -> String {
    format!("watermark/{operator}")
}

pub(crate) fn late(operator: &str) -> String {
    format!("{LATE}{operator}")
}

//! What a store of keyed state can do.

/// What a store of keyed state can do. A store says so once, keeps to it, and answers `Unsupported` to the rest:
/// never something weaker than what was asked for.
///
/// A store that is made names what it has and takes the rest from [`KeyedCapabilities::none`].
///
/// ```
/// use mainstay_model::KeyedCapabilities;
/// let table = KeyedCapabilities { atomic: true, ..KeyedCapabilities::none("table") };
/// assert!(!table.ordered);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedCapabilities {
    /// What the store is called, for people.
    pub store: &'static str,
    /// Whether several writes are all made or none, positions with them.
    pub atomic: bool,
    /// Whether writes can wait for the frontier.
    pub ordered: bool,
    /// Whether a merge function can be used.
    pub merged: bool,
    /// Whether keys have logs.
    pub appends: bool,
    /// Whether it outlives the process: what was acknowledged is there when it is opened again.
    pub durable: bool,
    /// Whether what changed since a snapshot can be had alone.
    pub incremental: bool,
}

impl KeyedCapabilities {
    /// None at all, but what every store has.
    pub fn none(store: &'static str) -> KeyedCapabilities {
        KeyedCapabilities {
            store,
            atomic: false,
            ordered: false,
            merged: false,
            appends: false,
            durable: false,
            incremental: false,
        }
    }
}

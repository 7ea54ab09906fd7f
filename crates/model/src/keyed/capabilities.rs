//! Capability flags of keyed state stores.

/// The capabilities of a keyed state store. A store reports them once and they never change. It returns
/// `Unsupported` for everything else, never a weaker guarantee than requested.
///
/// A store sets the capabilities it has and takes the rest from [`KeyedCapabilities::none`].
///
/// ```
/// use mainstay_model::KeyedCapabilities;
/// let table = KeyedCapabilities { atomic: true, ..KeyedCapabilities::none("table") };
/// assert!(!table.ordered);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedCapabilities {
    /// The store's name for messages.
    pub store: &'static str,
    /// True if a batch of writes, including positions, is atomic.
    pub atomic: bool,
    /// True if writes can wait for the frontier.
    pub ordered: bool,
    /// True if a merge function can be used.
    pub merged: bool,
    /// True if keys have logs of items.
    pub appends: bool,
    /// True if acknowledged writes survive a restart of the process.
    pub durable: bool,
    /// True if the store can write incremental snapshots, with only the changes since an earlier one.
    pub incremental: bool,
}

impl KeyedCapabilities {
    /// Only the capabilities that every store has.
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

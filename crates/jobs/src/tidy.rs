//! Tidying up: objects that no record names.

/// What tidying up found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TidyReport {
    /// How many objects were looked at.
    pub looked_at: u64,
    /// How many of them were deleted.
    pub deleted: u64,
}

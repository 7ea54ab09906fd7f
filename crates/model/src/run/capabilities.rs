//! Capability flags of run stores, and errors for missing ones.

use super::{NewEvent, RunFilter};
use crate::limits::{VALUE_LIMIT_BYTES, check_page};
use crate::record::lacks;
use crate::{Code, Error, Result, codec};

/// The capabilities of a run store. A store reports them once and they never change. It returns `Unsupported`
/// for everything else, never a weaker guarantee than requested.
///
/// A store sets the capabilities it has and takes the rest from [`RunCapabilities::none`]. A capability that
/// is added later is then missing by default.
///
/// ```
/// use mainstay_model::{NewEvent, RunCapabilities};
/// // A table whose numbers come from a database sequence: they are assigned before the transaction commits.
/// let table = RunCapabilities { batches: true, payload_limit_bytes: 1 << 20, ..RunCapabilities::none("table") };
/// assert!(!table.contiguous && !table.monotone);
/// let large = NewEvent::new("r", "RunStarted").plan("1").value("x".repeat(2 << 20));
/// assert!(table.check_event(&large).is_err());
/// assert!(table.lacks("deletion", "deleting a run").message().contains("`deletion`"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunCapabilities {
    /// The store's name for messages.
    pub store: &'static str,
    /// True if the sequence numbers of a run have no gaps: n + 1 follows n.
    pub contiguous: bool,
    /// True if a reader that has seen n never sees a smaller one later. Without it, readers need a projector
    /// that looks back.
    pub monotone: bool,
    /// True if a batch of events is appended atomically.
    pub batches: bool,
    /// True if an append can be conditional on the run's last sequence number.
    pub expected_seq: bool,
    /// True if a run can be created atomically with metadata and its first events.
    pub bootstrap: bool,
    /// The supported filters of a listing.
    pub listing: Listings,
    /// True if a whole run can be deleted.
    pub deletion: bool,
    /// True if archived events can be restored.
    pub restoring: bool,
    /// True if stored snapshots never lag behind the events that can be fetched.
    pub current_snapshots: bool,
    /// True if a new event wakes the waiting readers.
    pub tail_wakes: bool,
    /// The most encoded bytes of an event's data.
    pub payload_limit_bytes: usize,
}

/// The supported filters of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Listings {
    /// Runs cannot be listed.
    Nothing,
    /// By name.
    Names,
    /// By name, status, creation time and time of the last event.
    Filters,
}

impl RunCapabilities {
    /// A store that can only append and fetch, within the general limits.
    pub const fn none(store: &'static str) -> RunCapabilities {
        RunCapabilities {
            store,
            contiguous: false,
            monotone: false,
            batches: false,
            expected_seq: false,
            bootstrap: false,
            listing: Listings::Nothing,
            deletion: false,
            restoring: false,
            current_snapshots: false,
            tail_wakes: false,
            payload_limit_bytes: VALUE_LIMIT_BYTES,
        }
    }

    /// A store with every capability.
    pub const fn all(store: &'static str) -> RunCapabilities {
        RunCapabilities {
            contiguous: true,
            monotone: true,
            batches: true,
            expected_seq: true,
            bootstrap: true,
            listing: Listings::Filters,
            deletion: true,
            restoring: true,
            current_snapshots: true,
            tail_wakes: true,
            ..RunCapabilities::none(store)
        }
    }

    /// The error for a missing capability.
    #[cold]
    pub fn lacks(&self, capability: &str, asked: &str) -> Error {
        lacks(self.store, capability, asked)
    }

    /// Rejects an event that is invalid or too large for the store.
    pub fn check_event(&self, event: &NewEvent) -> Result<()> {
        event.check()?;
        let mut bytes = Vec::new();
        codec::encode_exact(&event.event_data, &mut bytes)?;
        if bytes.len() <= self.payload_limit_bytes {
            return Ok(());
        }
        let NewEvent { event_type, run_id, .. } = event;
        let message = format!(
            "the data of event {event_type} of run `{run_id}` has {} bytes, {} are the most: keep it elsewhere and \
             append where it is",
            bytes.len(),
            self.payload_limit_bytes
        );
        Err(Error::new(Code::ValueTooLarge, message))
    }

    /// Rejects a listing with an invalid page size or a filter that the store does not support.
    pub fn check_list(&self, filter: &RunFilter, limit: usize) -> Result<()> {
        check_page(limit)?;
        let names = RunFilter::of(&filter.prefix);
        let needed = if *filter == names { Listings::Names } else { Listings::Filters };
        if self.listing < needed {
            Err(self.lacks("listing", "a list of these runs"))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunStatus;

    #[test]
    fn a_listing_by_more_than_names_needs_more() {
        let names = RunCapabilities { listing: Listings::Names, ..RunCapabilities::none("names") };
        let failed = RunFilter::of("t/").status(RunStatus::Failed);
        assert!(names.check_list(&RunFilter::of("t/"), 1).is_ok());
        assert_eq!(names.check_list(&failed, 1).unwrap_err().code(), Code::Unsupported);
        assert!(RunCapabilities::all("all").check_list(&failed, 1).is_ok());
        let none = RunCapabilities::none("none").check_list(&RunFilter::default(), 1);
        assert!(none.unwrap_err().message().contains("`listing`"));
        assert_eq!(names.check_list(&failed, 0).unwrap_err().code(), Code::InvalidLimit);
    }

    #[test]
    fn the_payload_has_a_limit_of_the_stores_own() {
        let small = RunCapabilities { payload_limit_bytes: 16, ..RunCapabilities::none("small") };
        let event = |len: usize| NewEvent::new("r", "T").value("x".repeat(len));
        assert!(small.check_event(&event(8)).is_ok());
        assert_eq!(small.check_event(&event(17)).unwrap_err().code(), Code::ValueTooLarge);
        assert!(small.check_event(&NewEvent::new("r", "StepStarted")).is_err());
    }
}

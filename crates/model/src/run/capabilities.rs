//! What a store of runs can do, and the words for what it cannot.

use super::{NewEvent, RunFilter};
use crate::limits::{VALUE_LIMIT_BYTES, check_page};
use crate::record::lacks;
use crate::{Code, Error, Result, codec};

/// What a store of runs can do. A store says so once, keeps to it, and answers `Unsupported` to the rest:
/// never something weaker than what was asked for.
///
/// A store that is made names what it has and takes the rest from [`RunCapabilities::none`], so that a capability
/// that is thought of later is one it does not have.
///
/// ```
/// use mainstay_model::{NewEvent, RunCapabilities};
/// // A table whose numbers come from a sequence: they are taken before a transaction commits.
/// let table = RunCapabilities { batches: true, payload_limit_bytes: 1 << 20, ..RunCapabilities::none("table") };
/// assert!(!table.contiguous && !table.monotone);
/// let large = NewEvent::new("r", "RunStarted").plan("1").value("x".repeat(2 << 20));
/// assert!(table.check_event(&large).is_err());
/// assert!(table.lacks("deletion", "deleting a run").message().contains("`deletion`"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunCapabilities {
    /// What the store is called, for people.
    pub store: &'static str,
    /// Whether the sequences of a run have no gaps: behind n comes n + 1.
    pub contiguous: bool,
    /// Whether a reader that has seen n is never shown a smaller one later. Without it, readers need a
    /// projector that looks back.
    pub monotone: bool,
    /// Whether several events are appended all or not at all.
    pub batches: bool,
    /// Whether an append can be conditional on the run's last sequence.
    pub expected_seq: bool,
    /// Whether a run can be made with metadata and its first events, in one step.
    pub bootstrap: bool,
    /// What runs can be listed by.
    pub listing: Listings,
    /// Whether a whole run can be deleted.
    pub deletion: bool,
    /// Whether events can be written as an archive kept them.
    pub restoring: bool,
    /// Whether snapshots that are kept are never behind the events that can be fetched.
    pub current_snapshots: bool,
    /// Whether those who wait for an event are woken by it.
    pub tail_wakes: bool,
    /// The most bytes of what belongs to an event, encoded.
    pub payload_limit_bytes: usize,
}

/// What runs can be listed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Listings {
    /// They cannot be listed.
    Nothing,
    /// Their names.
    Names,
    /// Their names, where they stand, and when they were made and last written.
    Filters,
}

impl RunCapabilities {
    /// A store that can append and fetch, within the limits that all stores have.
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

    /// A store that can do everything.
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

    /// The error for what needs a capability that the store does not have.
    #[cold]
    pub fn lacks(&self, capability: &str, asked: &str) -> Error {
        lacks(self.store, capability, asked)
    }

    /// Refuses an event that makes no sense, or that is too large for the store.
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

    /// Refuses a listing of a size that there is not, or by what the store cannot list by.
    pub fn check_list(&self, filter: &RunFilter, limit: usize) -> Result<()> {
        check_page(limit)?;
        let names = RunFilter::of(&filter.prefix);
        let needed = if *filter == names { Listings::Names } else { Listings::Filters };
        match self.listing < needed {
            true => Err(self.lacks("listing", "a list of these runs")),
            false => Ok(()),
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

//! Views of the past that a server holds.

use crate::remote::link::Link;
use crate::remote::seat::Seat;
use crate::wire::{Act, Acted, Read, Seen};
use mainstay_model::{Answer, At, Result, Revision};
use std::sync::Arc;

/// A view of one branch as of one point in time, on a connection of its own: when that breaks, the view
/// is gone.
pub(crate) struct Held {
    seat: Seat,
    pub revision: Revision,
}

impl Held {
    pub async fn new(link: &Link, branch: &str, at: At) -> Result<Arc<Held>> {
        let (seat, revision) = link.hold(&Act::View { branch: branch.to_owned(), at }).await?;
        Ok(Arc::new(Held { seat, revision }))
    }

    pub async fn look(&self, read: Read) -> Result<Seen> {
        match self.seat.act_held(&Act::Look(read)).await? {
            Acted::Seen(seen) => Ok(seen),
            _ => Err(Answer::mismatch()),
        }
    }
}

//! The memory that the bodies of all requests share, and the part of it that one body has.

use super::Http;
use super::answers::{account, no_memory};
use super::refusal::{Answered, Refusal};
use crate::memory::{Kind, Reservation};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// A body up to this size costs nothing.
const SMALL_BYTES: usize = 64 << 10;
/// A body of unknown length gets room in steps of this size.
const STEP_BYTES: usize = 256 << 10;

/// The room that a body has; it goes with this.
#[derive(Default)]
pub(crate) struct Room {
    held: Option<OwnedSemaphorePermit>,
    /// Its bytes on the client's account.
    reserved: Option<Reservation>,
}

impl Room {
    /// Waits for room for a body whose length is known.
    pub async fn of(app: &Http, bytes: usize) -> Answered<Room> {
        let mut room = Room::default();
        room.grow_to(app, bytes, app.settings().upload_limit()).await?;
        Ok(room)
    }

    /// Waits for room for a body that has become so long. It holds what others may wait for, so it does
    /// not wait as long as one that has yet to begin: two that grow could wait for each other.
    pub async fn reach(&mut self, app: &Http, bytes: usize) -> Answered<()> {
        let stepped = match bytes > SMALL_BYTES {
            true => bytes.next_multiple_of(STEP_BYTES),
            false => bytes,
        };
        self.grow_to(app, stepped, app.settings().upload_pause_limit()).await
    }

    async fn grow_to(&mut self, app: &Http, bytes: usize, limit: Duration) -> Answered<()> {
        if bytes <= SMALL_BYTES {
            return Ok(());
        }
        let reserved = self.reserved.get_or_insert_with(|| account(app).reservation(Kind::Bodies));
        reserved.resize(bytes).map_err(|exceeded| no_memory(&exceeded))?;
        // One that is larger than all there is has to be content with all there is.
        let kilobytes = bytes.min(app.settings().bodies_limit_bytes) / 1024;
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = u32::try_from(kilobytes.saturating_sub(held)).unwrap_or(u32::MAX);
        if missing == 0 {
            return Ok(());
        }
        let more = tokio::time::timeout(limit, app.bodies().acquire_many_owned(missing)).await;
        let Ok(Ok(more)) = more else { return Err(crowded()) };
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }
}

fn crowded() -> Refusal {
    Refusal::unavailable("Busy", "too many large requests at once: try later")
}

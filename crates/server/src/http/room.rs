//! Memory reservations for request bodies, from a budget shared by all requests.

use super::Http;
use super::answers::{account, no_memory};
use super::refusal::{Answered, Refusal};
use crate::memory::{Kind, Reservation};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// Bodies up to this size are not counted.
const SMALL_BYTES: usize = 64 << 10;
/// A body of unknown length reserves memory in steps of this size.
const STEP_BYTES: usize = 256 << 10;

/// The reservation of one body. Dropping it releases the memory.
#[derive(Default)]
pub(crate) struct Room {
    /// Permits in KiB from the user's share, and from the shared budget.
    own: Option<OwnedSemaphorePermit>,
    held: Option<OwnedSemaphorePermit>,
    /// The bytes on the account of the connection.
    reserved: Option<Reservation>,
}

impl Room {
    /// Waits until a body of known length fits.
    pub async fn of(app: &Http, bytes: usize) -> Answered<Room> {
        let mut room = Room::default();
        room.grow_to(app, bytes, app.settings().upload_limit()).await?;
        Ok(room)
    }

    /// Waits until a body that has grown to `bytes` fits. The wait is shorter than for a new body, because
    /// two growing bodies could wait for each other's memory.
    pub async fn reach(&mut self, app: &Http, bytes: usize) -> Answered<()> {
        let stepped = if bytes > SMALL_BYTES { bytes.next_multiple_of(STEP_BYTES) } else { bytes };
        self.grow_to(app, stepped, app.settings().upload_pause_limit()).await
    }

    async fn grow_to(&mut self, app: &Http, bytes: usize, limit: Duration) -> Answered<()> {
        if bytes <= SMALL_BYTES {
            return Ok(());
        }
        let reserved = self.reserved.get_or_insert_with(|| account(app).reservation(Kind::Bodies));
        reserved.resize(bytes).map_err(|exceeded| no_memory(&exceeded))?;
        // A body larger than the whole budget takes all of it.
        let kilobytes = bytes.min(app.settings().bodies_limit_bytes) / 1024;
        let missing = kilobytes.saturating_sub(permits(&self.held));
        if missing == 0 {
            return Ok(());
        }
        let of_users = app.bodies_of_users();
        let own_missing = kilobytes.min(of_users.share()).saturating_sub(permits(&self.own));
        let acquire = async {
            let own = of_users.acquire_many(own_missing).await?;
            let missing = u32::try_from(missing).unwrap_or(u32::MAX);
            let held = app.bodies().acquire_many_owned(missing).await;
            Answered::Ok((own, held.map_err(|_| Refusal::lost())?))
        };
        let (own, held) = tokio::time::timeout(limit, acquire).await.map_err(|_| crowded())??;
        own.into_iter().for_each(|own| add(&mut self.own, own));
        add(&mut self.held, held);
        Ok(())
    }
}

fn permits(held: &Option<OwnedSemaphorePermit>) -> usize {
    held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
}

fn add(held: &mut Option<OwnedSemaphorePermit>, more: OwnedSemaphorePermit) {
    match held {
        Some(held) => held.merge(more),
        None => *held = Some(more),
    }
}

fn crowded() -> Refusal {
    Refusal::unavailable(
        "Busy",
        "too many large requests at once: try later, or raise http.bodies_limit_bytes",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Settings;
    use crate::http::shares::as_user;
    use crate::security::Security;
    use mainstay::Database;

    /// Announced bodies that do not arrive hold memory until the upload timeout.
    #[tokio::test]
    async fn a_user_with_many_bodies_leaves_room_to_others() {
        const MIB: usize = 1 << 20;
        let security = Security::of(&["greedy", "honest"]);
        let [greedy, honest] = ["greedy", "honest"].map(|name| security.user(name));
        let settings =
            Settings { bodies_limit_bytes: 8 * MIB, upload_limit_ms: 20, ..Settings::default() };
        let app = Http::secured(Database::memory().unwrap(), settings, security).unwrap();
        let mut held = Vec::new();
        while let Ok(room) = as_user(greedy.clone(), Room::of(&app, MIB)).await {
            held.push(room);
        }
        assert_eq!(held.len(), 4);
        assert!(as_user(honest.clone(), Room::of(&app, 4 * MIB)).await.is_ok());
        assert!(as_user(honest, Room::of(&app, 5 * MIB)).await.is_err(), "there are 4 for all");
        held.pop();
        assert!(as_user(greedy, Room::of(&app, MIB)).await.is_ok());
    }
}

//! Fair shares per user: connections, feed readers, and threads for slow reads.
//!
//! ```text
//!   slow read --> permit of the user's share --> permit of the shared semaphore --> a blocking thread
//!   catching up with the feed --> the user's turn --> a thread of low priority
//! ```
//!
//! A semaphore is fair between waiters, but does not know users: one user with a thousand requests would be
//! in its queue a thousand times. A per-user permit that is taken first limits the user's waiters to its
//! share.

use super::Http;
use super::access::Asking;
use super::refusal::{Answered, Refusal};
use crate::security::{Resource, Security, Share, ShareExhausted, User};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

tokio::task_local! {
    /// The user of the current request.
    static ASKING: Arc<User>;
}

/// Runs a future as a request of this user.
pub(super) async fn as_user<T>(user: Arc<User>, work: impl Future<Output = T>) -> T {
    ASKING.scope(user, work).await
}

/// One semaphore per user, each with the user's share of a limit.
pub(super) struct UserSeats {
    of_users: BTreeMap<String, Arc<Semaphore>>,
    share: usize,
}

impl UserSeats {
    /// Divides `limit` between the users. With one user or none, nothing is divided.
    pub fn new(security: &Security, limit: usize) -> UserSeats {
        let share = security.share_of(limit);
        let names = security.user_names().into_iter().filter(|_| share < limit);
        UserSeats {
            of_users: names
                .map(|name| (name.to_owned(), Arc::new(Semaphore::new(share))))
                .collect(),
            share,
        }
    }

    /// The most permits that one user can hold.
    pub fn share(&self) -> usize {
        self.share
    }

    /// Waits for one permit of the current user.
    pub async fn acquire(&self) -> Answered<Option<OwnedSemaphorePermit>> {
        self.acquire_many(1).await
    }

    /// Waits for `seats` permits of the current user, at most its whole share.
    pub async fn acquire_many(&self, seats: usize) -> Answered<Option<OwnedSemaphorePermit>> {
        let own = ASKING.try_with(|user| self.of_users.get(user.name()).cloned()).ok().flatten();
        let Some(own) = own else { return Ok(None) };
        let seats = u32::try_from(seats.min(self.share)).unwrap_or(u32::MAX);
        own.acquire_many_owned(seats).await.map(Some).map_err(|_| Refusal::lost())
    }
}

/// The slot of a connection in its user's share. It is taken at the first authenticated request.
#[derive(Clone, Default)]
pub(crate) struct ConnectionShare(Arc<Mutex<Option<Share>>>);

impl ConnectionShare {
    /// Returns whether no request of the connection has been authenticated yet.
    pub fn is_nobodys(&self) -> bool {
        self.0.lock().is_none()
    }

    /// Counts the connection against this user's share.
    pub fn belongs_to(&self, user: &Arc<User>, limit: usize) -> Answered<()> {
        let mut held = self.0.lock();
        if held.as_ref().is_some_and(|share| share.is_of(user)) {
            return Ok(());
        }
        *held = None;
        *held = Some(user.share(Resource::HttpConnections, limit)?);
        Ok(())
    }
}

/// The slot of a feed reader, in the shared limit and in its user's share.
pub(crate) struct FeedSeat {
    _seat: OwnedSemaphorePermit,
    _share: Share,
}

impl Http {
    /// Takes a slot for one more feed reader.
    pub(super) fn feed_seat(&self, asking: &Asking) -> Answered<FeedSeat> {
        let seat = self.feed_readers().try_acquire_owned().map_err(|_| full())?;
        let share = asking.user.share(Resource::HttpFeedReaders, self.settings().feed_readers)?;
        Ok(FeedSeat { _seat: seat, _share: share })
    }
}

fn full() -> Refusal {
    let message = "the feed has as many readers as it may: try later, or raise http.feed_readers";
    Refusal::unavailable("TooManyReaders", message)
}

impl From<ShareExhausted> for Refusal {
    fn from(error: ShareExhausted) -> Refusal {
        Refusal::unavailable("ShareExhausted", error.to_string()).closing()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A permit, if one is free now.
    async fn seat(seats: &UserSeats, user: &Arc<User>) -> Option<OwnedSemaphorePermit> {
        let seat = as_user(user.clone(), seats.acquire());
        let seat = tokio::time::timeout(Duration::from_millis(10), seat).await;
        seat.ok().and_then(|seat| seat.ok().unwrap())
    }

    #[tokio::test]
    async fn a_user_with_many_slow_reads_leaves_threads_to_others() {
        let security = Security::of(&["greedy", "honest"]);
        let [greedy, honest] = ["greedy", "honest"].map(|name| security.user(name));
        let seats = UserSeats::new(&security, 8);
        let mut held = Vec::new();
        while let Some(seat) = seat(&seats, &greedy).await {
            held.push(seat);
        }
        assert_eq!(held.len(), 4);
        assert!(seat(&seats, &honest).await.is_some());
        held.pop();
        assert!(seat(&seats, &greedy).await.is_some());
    }

    #[tokio::test]
    async fn one_user_alone_has_all_of_them() {
        let security = Security::of(&["alone"]);
        let seats = UserSeats::new(&security, 8);
        let seat = as_user(security.user("alone"), seats.acquire()).await;
        assert!(seat.ok().unwrap().is_none(), "those of all are enough");
    }

    #[test]
    fn a_connection_is_one_of_its_user_until_it_is_dropped() {
        let security = Security::of(&["greedy", "honest"]);
        let [greedy, honest] = ["greedy", "honest"].map(|name| security.user(name));
        let connections = [(); 3].map(|()| ConnectionShare::default());
        for connection in &connections[..2] {
            connection.belongs_to(&greedy, 4).ok().unwrap();
            connection.belongs_to(&greedy, 4).ok().unwrap();
        }
        assert!(connections[2].belongs_to(&greedy, 4).is_err());
        connections[2].belongs_to(&honest, 4).ok().unwrap();
        connections[0].belongs_to(&honest, 4).ok().unwrap();
        assert!(ConnectionShare::default().belongs_to(&greedy, 4).is_ok(), "one was given back");
    }
}

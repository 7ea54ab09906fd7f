//! Reservations of one connection in the shared memory budget, by kind.

use crate::memory::{Account, Exceeded, Kind, Reservation};
use std::sync::Arc;

/// The memory of a connection, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryUsage {
    /// Incomplete requests, and requests waiting for the batch.
    pub requests: usize,
    /// Unsent replies.
    pub replies: usize,
    /// Commands between `MULTI` and `EXEC`.
    pub queued: usize,
    /// The open transaction.
    pub transaction: usize,
}

/// The reservations of one connection, released on drop.
#[derive(Debug)]
pub struct ConnectionReservations {
    account: Arc<Account>,
    requests: Reservation,
    replies: Reservation,
    queued: Reservation,
    transaction: Reservation,
}

impl ConnectionReservations {
    /// Creates empty reservations.
    pub fn new(account: &Arc<Account>) -> ConnectionReservations {
        ConnectionReservations {
            account: account.clone(),
            requests: account.reservation(Kind::Requests),
            replies: account.reservation(Kind::Replies),
            queued: account.reservation(Kind::Queued),
            transaction: account.reservation(Kind::Transactions),
        }
    }

    /// Adjusts the reservations to the memory of the connection, on the account of its present user. Fails
    /// if growth exceeds a limit.
    pub fn update(&mut self, account: &Arc<Account>, now: MemoryUsage) -> Result<(), Exceeded> {
        if !Arc::ptr_eq(&self.account, account) {
            *self = ConnectionReservations::new(account);
        }
        let ConnectionReservations { requests, replies, queued, transaction, .. } = self;
        // This runs after every request, and most requests fit into the existing reservations.
        let is_covered = requests.covers(now.requests)
            && replies.covers(now.replies)
            && queued.covers(now.queued)
            && transaction.covers(now.transaction);
        if is_covered {
            return Ok(());
        }
        let mut changes = [
            (requests, now.requests),
            (replies, now.replies),
            (queued, now.queued),
            (transaction, now.transaction),
        ];
        // Reservations shrink before others grow, so an aborted transaction makes room for the request
        // behind it.
        changes.sort_by_key(|(reservation, bytes)| *bytes > reservation.bytes());
        changes.into_iter().try_for_each(|(reservation, bytes)| reservation.resize(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryBudget, Settings};

    #[test]
    fn released_bytes_make_room_for_others_in_the_same_step() {
        const MIB: usize = 1 << 20;
        let limits = Settings { per_connection_bytes: 4 * MIB, ..Settings::default() };
        let account = MemoryBudget::new(limits).connect(None).of_user(None);
        let mut reservations = ConnectionReservations::new(&account);
        let open = MemoryUsage { transaction: 3 * MIB, ..MemoryUsage::default() };
        reservations.update(&account, open).unwrap();
        assert!(reservations.update(&account, MemoryUsage { requests: 3 * MIB, ..open }).is_err());
        let given_up = MemoryUsage { requests: 3 * MIB, ..MemoryUsage::default() };
        assert_eq!(reservations.update(&account, given_up), Ok(()));
    }
}

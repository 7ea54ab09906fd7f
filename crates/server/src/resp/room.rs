//! Reservations of one connection in the shared memory budget, by kind.

use crate::memory::{Account, Exceeded, Kind, Reservation};
use std::sync::Arc;

/// The memory of a connection, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Holding {
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
pub struct Share {
    account: Arc<Account>,
    requests: Reservation,
    replies: Reservation,
    queued: Reservation,
    transaction: Reservation,
}

impl Share {
    /// Creates empty reservations.
    pub fn new(account: &Arc<Account>) -> Share {
        Share {
            account: account.clone(),
            requests: account.reservation(Kind::Requests),
            replies: account.reservation(Kind::Replies),
            queued: account.reservation(Kind::Queued),
            transaction: account.reservation(Kind::Transactions),
        }
    }

    /// Adjusts the reservations to the memory of the connection, on the account of its present user. Fails
    /// if growth exceeds a limit.
    pub fn holds(&mut self, account: &Arc<Account>, now: Holding) -> Result<(), Exceeded> {
        if !Arc::ptr_eq(&self.account, account) {
            *self = Share::new(account);
        }
        let Share { requests, replies, queued, transaction, .. } = self;
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
        let mut share = Share::new(&account);
        let open = Holding { transaction: 3 * MIB, ..Holding::default() };
        share.holds(&account, open).unwrap();
        assert!(share.holds(&account, Holding { requests: 3 * MIB, ..open }).is_err());
        let given_up = Holding { requests: 3 * MIB, ..Holding::default() };
        assert_eq!(share.holds(&account, given_up), Ok(()));
    }
}

//! The memory that one connection holds, by kind, as reservations in the budget that all share.

use crate::memory::{Account, Exceeded, Kind, Reservation};
use std::sync::Arc;

/// The memory of a connection, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Holding {
    /// Of requests that are incomplete or wait for the batch.
    pub requests: usize,
    /// Of replies that are not sent.
    pub replies: usize,
    /// Of commands between `MULTI` and `EXEC`.
    pub queued: usize,
    /// Of the transaction that is open.
    pub transaction: usize,
}

/// The reservations of one connection; given back when they are dropped.
#[derive(Debug)]
pub struct Share {
    account: Arc<Account>,
    requests: Reservation,
    replies: Reservation,
    queued: Reservation,
    transaction: Reservation,
}

impl Share {
    /// Nothing is held yet.
    pub fn new(account: &Arc<Account>) -> Share {
        Share {
            account: account.clone(),
            requests: account.reservation(Kind::Requests),
            replies: account.reservation(Kind::Replies),
            queued: account.reservation(Kind::Queued),
            transaction: account.reservation(Kind::Transactions),
        }
    }

    /// Counts the memory of the connection on the account of its present user; fails when it grew beyond a limit.
    pub fn holds(&mut self, account: &Arc<Account>, now: Holding) -> Result<(), Exceeded> {
        if !Arc::ptr_eq(&self.account, account) {
            *self = Share::new(account);
        }
        let Share { requests, replies, queued, transaction, .. } = self;
        // It is asked after every request, and most are small.
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
        // Released bytes count before new ones: a transaction that was given up makes room for the request behind it.
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

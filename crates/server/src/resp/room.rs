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
        self.requests.resize(now.requests)?;
        self.replies.resize(now.replies)?;
        self.queued.resize(now.queued)?;
        self.transaction.resize(now.transaction)
    }
}

//! The write queue: transactions that wait for the next batch.
//!
//! ```text
//!   small writes --all of them------------------------+--> batch: executed together, one fsync
//!   large writes --a bounded part, users take turns---+
//! ```
//!
//! A small write waits for the running batch and for its own batch. It does not wait for all the megabytes
//! that other clients sent before it. RocksDB bounds its write groups in the same way. Beyond one mebibyte,
//! small writes wait with the large ones.

use crate::fair_queue::FairQueue;
use mainstay::{Command, Transaction};

/// The writes of one connection in one turn are large if their keys and values have more bytes than this.
const LARGE_BYTES: usize = 16 << 10;
/// A batch takes no more writes once its keys and values reach this size. Later writes wait for the next
/// batch.
const BATCH_BYTES: usize = 1 << 20;
/// The same limit for a batch with small writes, because they wait for all of it.
const BATCH_BYTES_BESIDE_SMALL: usize = BATCH_BYTES / 4;

/// A connection that waits for a batch.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    pub slot: usize,
    /// The session id.
    pub id: u64,
    /// Number of this connection's transactions in the batch.
    pub transactions: usize,
    /// Start of its turn, in microseconds.
    pub began_us: u64,
}

/// Transactions that are executed together, and the connections that wait for them, in the same order.
#[derive(Default)]
pub struct Batch {
    pub transactions: Vec<Transaction>,
    pub waiters: Vec<Waiter>,
}

/// The writes of one connection.
pub struct ConnectionWrites {
    pub owner: usize,
    pub slot: usize,
    pub id: u64,
    /// Index of its first transaction in the batch. All later transactions are its own too.
    pub first: usize,
    pub began_us: u64,
}

struct LargeWrites {
    waiter: Waiter,
    transactions: Vec<Transaction>,
    data_bytes: usize,
}

#[derive(Default)]
pub struct WriteQueue {
    small: Batch,
    small_bytes: usize,
    /// Large writes by owner. Owners take turns.
    large: FairQueue<usize, LargeWrites>,
}

impl WriteQueue {
    /// Returns the list to which a connection appends its transactions before [`WriteQueue::assign`] assigns
    /// them to it.
    pub fn pending_transactions(&mut self) -> &mut Vec<Transaction> {
        &mut self.small.transactions
    }

    pub fn is_empty(&self) -> bool {
        self.small.waiters.is_empty() && self.large.is_empty()
    }

    /// Assigns the last gathered transactions to a connection.
    pub fn assign(&mut self, writes: ConnectionWrites) {
        let ConnectionWrites { owner, slot, id, first, began_us } = writes;
        let transactions = &mut self.small.transactions;
        let data_bytes = transactions[first..].iter().map(data_bytes).sum();
        let waiter = Waiter { slot, id, transactions: transactions.len() - first, began_us };
        if data_bytes > LARGE_BYTES || self.small_bytes + data_bytes > BATCH_BYTES {
            let transactions = transactions.split_off(first);
            self.large.push(owner, LargeWrites { waiter, transactions, data_bytes });
        } else {
            self.small_bytes += data_bytes;
            self.small.waiters.push(waiter);
        }
    }

    /// Drops the last gathered transactions, because no connection waits for them.
    pub fn truncate_to(&mut self, first: usize) {
        self.small.transactions.truncate(first);
    }

    /// Takes the next batch.
    pub fn next_batch(&mut self) -> Batch {
        let mut batch = std::mem::take(&mut self.small);
        self.small_bytes = 0;
        let limit = if batch.waiters.is_empty() { BATCH_BYTES } else { BATCH_BYTES_BESIDE_SMALL };
        let mut bytes = 0;
        while bytes < limit
            && let Some((_, large)) = self.large.pop()
        {
            bytes += large.data_bytes;
            batch.transactions.extend(large.transactions);
            batch.waiters.push(large.waiter);
        }
        // Receipts are assigned by these counts, so a wrong count would give a receipt to another
        // connection.
        debug_assert_eq!(
            batch.waiters.iter().map(|waiter| waiter.transactions).sum::<usize>(),
            batch.transactions.len()
        );
        batch
    }
}

/// Returns the approximate memory of the keys and values of a transaction.
fn data_bytes(transaction: &Transaction) -> usize {
    let bare = size_of::<Transaction>() + transaction.steps.len() * size_of::<Command>();
    transaction.weight_bytes().saturating_sub(bare)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay::{CellCommand, Name, Value};

    /// Adds two writes to the queue, the first one with `bytes` bytes.
    fn put(queue: &mut WriteQueue, owner: usize, id: u64, bytes: usize) {
        let first = queue.pending_transactions().len();
        for bytes in [bytes, 1] {
            let value = Value::Bytes(vec![0; bytes]);
            let set = CellCommand::set(Name::new(&id.to_string()).unwrap(), value);
            queue.pending_transactions().push(Transaction::new().step(set));
        }
        queue.assign(ConnectionWrites { owner, slot: 0, id, first, began_us: id });
    }

    /// Returns the connections of the next batch, and checks that its transactions belong to them.
    fn next(queue: &mut WriteQueue) -> Vec<u64> {
        let Batch { transactions, waiters } = queue.next_batch();
        let mut transactions = transactions.iter();
        for waiter in &waiters {
            for transaction in transactions.by_ref().take(waiter.transactions) {
                let written = format!("{:?}", transaction.steps[0].command);
                assert!(written.contains(&format!("\"{}\"", waiter.id)), "{waiter:?}: {written}");
            }
        }
        assert_eq!(transactions.len(), 0);
        waiters.iter().map(|waiter| waiter.id).collect()
    }

    #[test]
    fn a_small_write_is_in_the_next_batch_and_large_ones_follow_in_parts() {
        let mut queue = WriteQueue::default();
        (1..=10).for_each(|id| put(&mut queue, 0, id, 256 << 10));
        put(&mut queue, 0, 11, 1);
        assert_eq!(next(&mut queue), [11, 1]);
        assert_eq!(next(&mut queue), [2, 3, 4, 5]);
        (12..=13).for_each(|id| put(&mut queue, 0, id, 1));
        assert_eq!(next(&mut queue), [12, 13, 6]);
        assert_eq!(next(&mut queue), [7, 8, 9, 10]);
        assert!(queue.is_empty());
    }

    #[test]
    fn users_take_turns_with_large_writes() {
        let mut queue = WriteQueue::default();
        (1..=8).for_each(|id| put(&mut queue, 0, id, 256 << 10));
        put(&mut queue, 1, 9, 256 << 10);
        assert_eq!(next(&mut queue), [1, 9, 2, 3]);
    }

    #[test]
    fn small_writes_beyond_a_batch_take_turns_as_well() {
        let mut queue = WriteQueue::default();
        (1..=100).for_each(|id| put(&mut queue, 0, id, 15 << 10));
        put(&mut queue, 1, 101, 8 << 10);
        put(&mut queue, 0, 102, 15 << 10);
        let first = next(&mut queue);
        assert_eq!(first[66..71], [67, 68, 69, 101, 70]);
        assert!(first.len() < 90, "{first:?}");
        let rest = next(&mut queue);
        assert_eq!((first.len() + rest.len(), rest.last()), (102, Some(&102)));
    }

    #[test]
    fn a_write_larger_than_a_batch_is_written_alone() {
        let mut queue = WriteQueue::default();
        put(&mut queue, 0, 1, 8 << 20);
        put(&mut queue, 0, 2, 256 << 10);
        assert_eq!(next(&mut queue), [1]);
        assert_eq!(next(&mut queue), [2]);
    }

    #[test]
    fn writes_that_nobody_waits_for_are_no_part_of_a_batch() {
        let mut queue = WriteQueue::default();
        put(&mut queue, 0, 1, 1);
        let first = queue.pending_transactions().len();
        queue.pending_transactions().push(Transaction::new());
        queue.truncate_to(first);
        put(&mut queue, 0, 2, 1);
        assert_eq!(next(&mut queue), [1, 2]);
    }
}

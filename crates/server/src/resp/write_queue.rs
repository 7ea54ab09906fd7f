//! The writes that wait for the next batch.
//!
//! ```text
//!   small writes --all of them---------------------+--> batch: executed together, one sync
//!   large writes --a bounded part, users in turn---+
//! ```
//!
//! A small write waits for the batch under way and for its own, and not for all the megabytes that others have sent before it. RocksDB
//! bounds its groups of writes the same way. Beyond a mebibyte, small writes wait with the large ones.

use crate::fair_queue::FairQueue;
use mainstay::{Command, Transaction};

/// Keys and values of one turn of a connection are large beyond this.
const LARGE_BYTES: usize = 16 << 10;
/// A batch takes no further writes once it has so many bytes of keys and values: those that come meanwhile wait for it.
const BATCH_BYTES: usize = 1 << 20;
/// The same for a batch that has small writes, which wait for all of it.
const BATCH_BYTES_BESIDE_SMALL: usize = BATCH_BYTES / 4;

/// A connection that waits for a batch.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    pub place: usize,
    /// The number of its session.
    pub id: u64,
    /// How many transactions of the batch are its own.
    pub transactions: usize,
    /// When its turn began, in microseconds.
    pub began_us: u64,
}

/// Transactions that are executed together, and who waits for them, in the same order.
#[derive(Default)]
pub struct Batch {
    pub transactions: Vec<Transaction>,
    pub waiters: Vec<Waiter>,
}

/// The writes of one connection.
pub struct Writes {
    pub owner: usize,
    pub place: usize,
    pub id: u64,
    /// The place of the first of its transactions in the batch; those behind are its own as well.
    pub first: usize,
    pub began_us: u64,
}

struct Large {
    waiter: Waiter,
    transactions: Vec<Transaction>,
    data_bytes: usize,
}

/// The writes that wait for the next batch.
#[derive(Default)]
pub struct WriteQueue {
    small: Batch,
    small_bytes: usize,
    /// By owner, who take turns.
    large: FairQueue<usize, Large>,
}

impl WriteQueue {
    /// Where a connection puts its transactions, before it is told by [`WriteQueue::put`] whose they are.
    pub fn gathered(&mut self) -> &mut Vec<Transaction> {
        &mut self.small.transactions
    }

    pub fn is_empty(&self) -> bool {
        self.small.waiters.is_empty() && self.large.is_empty()
    }

    /// The last transactions that were gathered are these writes.
    pub fn put(&mut self, writes: Writes) {
        let Writes { owner, place, id, first, began_us } = writes;
        let gathered = &mut self.small.transactions;
        let data_bytes = gathered[first..].iter().map(data_bytes).sum();
        let waiter = Waiter { place, id, transactions: gathered.len() - first, began_us };
        if data_bytes > LARGE_BYTES || self.small_bytes + data_bytes > BATCH_BYTES {
            let transactions = gathered.split_off(first);
            self.large.push(owner, Large { waiter, transactions, data_bytes });
        } else {
            self.small_bytes += data_bytes;
            self.small.waiters.push(waiter);
        }
    }

    /// Nobody waits for the last transactions that were gathered: they are dropped.
    pub fn drop_from(&mut self, first: usize) {
        self.small.transactions.truncate(first);
    }

    /// The next batch.
    pub fn take(&mut self) -> Batch {
        let mut batch = std::mem::take(&mut self.small);
        self.small_bytes = 0;
        let limit = match batch.waiters.is_empty() {
            true => BATCH_BYTES,
            false => BATCH_BYTES_BESIDE_SMALL,
        };
        let mut bytes = 0;
        while bytes < limit
            && let Some((_, large)) = self.large.pop()
        {
            bytes += large.data_bytes;
            batch.transactions.extend(large.transactions);
            batch.waiters.push(large.waiter);
        }
        // Receipts are handed out by these numbers: one too many would be somebody else's.
        debug_assert_eq!(
            batch.waiters.iter().map(|waiter| waiter.transactions).sum::<usize>(),
            batch.transactions.len()
        );
        batch
    }
}

/// The memory of its keys and values, about.
fn data_bytes(transaction: &Transaction) -> usize {
    let bare = size_of::<Transaction>() + transaction.steps.len() * size_of::<Command>();
    transaction.weight_bytes().saturating_sub(bare)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay::{CellCommand, Name, Value};

    /// Puts two writes into the queue, the first one of so many bytes.
    fn put(queue: &mut WriteQueue, owner: usize, id: u64, bytes: usize) {
        let first = queue.gathered().len();
        for bytes in [bytes, 1] {
            let value = Value::Bytes(vec![0; bytes]);
            let set = CellCommand::set(Name::new(&id.to_string()).unwrap(), value);
            queue.gathered().push(Transaction::new().step(set));
        }
        queue.put(Writes { owner, place: 0, id, first, began_us: id });
    }

    /// The connections of the next batch, whose transactions have to be theirs.
    fn next(queue: &mut WriteQueue) -> Vec<u64> {
        let Batch { transactions, waiters } = queue.take();
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
        let first = queue.gathered().len();
        queue.gathered().push(Transaction::new());
        queue.drop_from(first);
        put(&mut queue, 0, 2, 1);
        assert_eq!(next(&mut queue), [1, 2]);
    }
}

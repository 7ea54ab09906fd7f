//! Public handles on jobs and locks: blocking, async, and inside an open transaction.

pub(crate) mod asynchronous;
pub(crate) mod in_transaction;
pub(crate) mod jobs;
pub(crate) mod locks;

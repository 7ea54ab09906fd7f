//! Waiting for jobs and locks: FIFO wait queues, served by one dispatcher thread.

pub(crate) mod deadline;
pub(crate) mod wait_queue;

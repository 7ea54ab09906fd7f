//! Snapshots that the server holds open on a dedicated connection.

use crate::connection_pool::ConnectionPool;
use crate::dedicated::DedicatedConnection;
use mainstay_model::wire::{ReadOp, ReadReply, TransactionReply, TransactionRequest};
use mainstay_model::{Answer, At, Result, Revision};
use std::sync::Arc;

/// A view of one branch at one point in time. If its dedicated connection breaks, the view is lost.
pub(crate) struct RemoteSnapshot {
    seat: DedicatedConnection,
    pub revision: Revision,
}

impl RemoteSnapshot {
    pub async fn new(link: &ConnectionPool, branch: &str, at: At) -> Result<Arc<RemoteSnapshot>> {
        let (seat, revision) =
            link.hold(&TransactionRequest::View { branch: branch.to_owned(), at }).await?;
        Ok(Arc::new(RemoteSnapshot { seat, revision }))
    }

    pub async fn look(&self, read: ReadOp) -> Result<ReadReply> {
        match self.seat.act_held(&TransactionRequest::Look(read)).await? {
            TransactionReply::Seen(seen) => Ok(seen),
            _ => Err(Answer::mismatch()),
        }
    }
}

//! Tickets: the future answer of a submitted transaction, of an embedded or a served database.

use mainstay_client::SubmittedRequest;
use mainstay_engine::commit::ticket;
use mainstay_model::{Receipt, Result};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future for the answer of a submitted transaction.
pub struct Ticket(TicketBackend);

enum TicketBackend {
    Local(ticket::Ticket),
    Remote(SubmittedRequest),
}

impl Ticket {
    pub(crate) fn local(ticket: ticket::Ticket) -> Ticket {
        Ticket(TicketBackend::Local(ticket))
    }

    pub(crate) fn remote(submitted: SubmittedRequest) -> Ticket {
        Ticket(TicketBackend::Remote(submitted))
    }

    /// Waits until the transaction is durable, or has failed.
    pub fn wait(self) -> Result<Receipt> {
        match self.0 {
            TicketBackend::Local(ticket) => ticket.wait(),
            TicketBackend::Remote(submitted) => submitted.wait(),
        }
    }

    /// Returns whether the answer has arrived.
    pub fn is_done(&self) -> bool {
        match &self.0 {
            TicketBackend::Local(ticket) => ticket.is_done(),
            TicketBackend::Remote(submitted) => submitted.is_done(),
        }
    }
}

/// A ticket can be awaited on any async runtime.
impl Future for Ticket {
    type Output = Result<Receipt>;

    fn poll(mut self: Pin<&mut Ticket>, context: &mut Context<'_>) -> Poll<Result<Receipt>> {
        match &mut self.0 {
            TicketBackend::Local(ticket) => Pin::new(ticket).poll(context),
            TicketBackend::Remote(submitted) => submitted.poll(context),
        }
    }
}

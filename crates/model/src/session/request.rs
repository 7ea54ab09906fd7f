//! A client's request.

use super::REQUEST_LIMIT;
use crate::{Code, Error, Name, Result, Stamp};
use serde::{Deserialize, Serialize};

/// Says whose request a transaction is, and which of theirs: it is executed once, however often it is sent.
///
/// ```
/// use mainstay_model::{Name, SessionRequest};
/// let request = SessionRequest::new(Name::new("till-7")?, 12, 10);
/// assert!(request.check().is_ok());
/// assert!(SessionRequest::new(Name::new("till-7")?, 12, 13).check().is_err());
/// # Ok::<(), mainstay_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionRequest {
    /// The session.
    pub session: Name,
    /// The number of the request in it, from 1.
    pub request_id: u64,
    /// The lowest number whose response the client has not got: those below may go. At most the request's own number.
    pub lowest_pending: u64,
    /// The epoch of the session that it is for, see [`SessionInfo::epoch`](crate::SessionInfo::epoch): in another one it is
    /// refused. 0: whichever it has.
    pub epoch: Stamp,
}

impl SessionRequest {
    /// A request of a session, whoever holds it.
    pub fn new(session: Name, request_id: u64, lowest_pending: u64) -> SessionRequest {
        SessionRequest { session, request_id, lowest_pending, epoch: 0 }
    }

    /// For one epoch of the session only: once another client has taken it, or it was opened anew, late copies of this
    /// request are not executed.
    #[must_use]
    pub fn in_epoch(self, epoch: Stamp) -> SessionRequest {
        SessionRequest { epoch, ..self }
    }

    /// Refuses numbers that make no sense.
    pub fn check(&self) -> Result<()> {
        let SessionRequest { session, request_id, lowest_pending, .. } = self;
        if *request_id == 0 {
            return Err(invalid(format!(
                "session `{session}`: requests are numbered from 1, not 0"
            )));
        }
        check_number(session, *request_id)?;
        if lowest_pending > request_id {
            let message = format!(
                "session `{session}`: request {request_id} cannot wait while {lowest_pending} is the lowest that does"
            );
            return Err(invalid(message));
        }
        Ok(())
    }
}

/// Refuses a number that no request has.
pub(super) fn check_number(session: &Name, number: u64) -> Result<()> {
    if number <= REQUEST_LIMIT {
        return Ok(());
    }
    let message = format!(
        "session `{session}`: {number} is no request's number, the highest is {REQUEST_LIMIT}"
    );
    Err(invalid(message))
}

#[cold]
fn invalid(message: String) -> Error {
    Error::new(Code::InvalidArgument, message)
}

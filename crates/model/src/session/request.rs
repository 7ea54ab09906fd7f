//! Request identity: session, number and epoch.

use super::REQUEST_LIMIT;
use crate::{Code, Error, Name, Result, Stamp};
use serde::{Deserialize, Serialize};

/// Identifies a transaction as a session's request, so that it is executed exactly once however often it is
/// sent.
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
    /// The number of the request in the session, from 1.
    pub request_id: u64,
    /// The lowest request whose response the client has not received. Responses below it may be dropped. It
    /// is at most the request's own number.
    pub lowest_pending: u64,
    /// The epoch that the request belongs to, see [`SessionInfo::epoch`](crate::SessionInfo::epoch). It is
    /// refused in another epoch. 0 for any epoch.
    pub epoch: Stamp,
}

impl SessionRequest {
    /// A request that is valid in any epoch.
    pub fn new(session: Name, request_id: u64, lowest_pending: u64) -> SessionRequest {
        SessionRequest { session, request_id, lowest_pending, epoch: 0 }
    }

    /// Restricts the request to one epoch. After another client has taken the session, or it was reopened,
    /// delayed copies of this request are not executed.
    #[must_use]
    pub fn in_epoch(self, epoch: Stamp) -> SessionRequest {
        SessionRequest { epoch, ..self }
    }

    /// Rejects invalid numbers.
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

/// Rejects a number above the limit.
pub fn check_number(session: &Name, number: u64) -> Result<()> {
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
